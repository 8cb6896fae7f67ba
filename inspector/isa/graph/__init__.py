"""Control flow of what was read: branches, blocks, dominators, loops and calls."""
