"""Code objects: ELF, notes, kernel descriptors, line tables, bundles and disassembly."""
