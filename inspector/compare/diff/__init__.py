"""Two reports compared: which kernels belong together, what changed, and whether that matters."""
