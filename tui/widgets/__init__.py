"""Views that several screens use."""
