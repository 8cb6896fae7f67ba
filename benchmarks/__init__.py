"""Benchmarks: they print figures, and never pass or fail."""
