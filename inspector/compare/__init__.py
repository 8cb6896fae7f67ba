"""Two things held against each other: diff, sweep, two Tritons, two profiles."""
