"""Samples and traced cycles on the lines of a kernel's assembly, and what they add up to."""
