"""Lane addresses without running a kernel: cache lines, banks, races."""
