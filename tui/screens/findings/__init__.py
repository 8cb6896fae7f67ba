"""The page of findings, grouped by rule, kernel or file."""
