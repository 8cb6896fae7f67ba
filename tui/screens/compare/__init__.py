"""Two kernels side by side."""
