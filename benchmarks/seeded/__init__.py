"""Slow kernels, each with one fault that was put into it, and whether a change repairs it."""
