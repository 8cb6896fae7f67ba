"""Facts about one kernel's texts, line by line: pure values, for any user interface."""
