"""The table of kernels, live while they compile."""
