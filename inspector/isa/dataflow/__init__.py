"""Which registers an instruction reads and writes, and which values are still needed where."""
