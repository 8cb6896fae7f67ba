"""What is wrong, grouped."""
