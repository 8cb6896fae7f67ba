"""Checks and measures kernel files: loads them, launches them, compares and times.

Unlike the rest of the guest this runs kernels for real: in Triton's interpreter, or on the GPU.
"""
