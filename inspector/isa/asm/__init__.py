"""Reading AMDGCN assembly text of every age and make."""
