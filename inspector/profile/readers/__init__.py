"""One file per format. Each reads a file, or a folder that belongs together, into a `Builder`."""
