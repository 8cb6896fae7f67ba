"""The same kernels compiled by several Tritons."""
