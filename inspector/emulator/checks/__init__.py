"""What code does and must not do, noticed while it is executed or looked for before."""
