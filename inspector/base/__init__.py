"""What every room needs of the system: strangers' text, files, limits, signals, programs."""
