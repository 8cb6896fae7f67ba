"""The machine that kernels run on: its settings, and its faults."""
