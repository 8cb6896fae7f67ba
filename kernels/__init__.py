"""Bundled Triton kernels: loaded by path like any user file, never imported by the inspector."""
