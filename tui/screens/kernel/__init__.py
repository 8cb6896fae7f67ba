"""The page of one kernel: Python, TTGIR, LLIR and assembly, linked."""
