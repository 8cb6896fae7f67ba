"""Cures that are tried: the changes that may be rid of a kernel's findings are compiled."""
