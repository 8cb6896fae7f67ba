"""The system for every room: strangers' text, files, limits, signals, programs."""
