"""The layer of the compiler that makes a figure differ between two versions of Triton."""
