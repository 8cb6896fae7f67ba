"""The saved report: its JSON and its archive, written and read back."""
