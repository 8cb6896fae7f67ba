"""`kinspect fault`: the ROCm debug agent run, its report read, the faulting line found."""
