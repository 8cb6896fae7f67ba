"""What profilers recorded: found, run, read, and joined to what the compiler's output says."""
