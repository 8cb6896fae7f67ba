"""What the compiler made of a GPU kernel, and why it is slow."""
