"""Reading AMDGCN text: assembly of every age and make, and llvm-objdump listings."""
