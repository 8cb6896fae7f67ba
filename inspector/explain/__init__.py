"""Words and groups for people, for any user interface."""
