"""What a script believes while it runs without a GPU: driver, device, tensors, clocks, tools."""
