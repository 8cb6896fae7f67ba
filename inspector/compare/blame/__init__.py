"""Which layer of the compiler makes a figure differ between two versions of Triton."""
