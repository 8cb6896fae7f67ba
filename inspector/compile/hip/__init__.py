"""HIP sources: the compiler that is installed makes assembly of them, device side only."""
