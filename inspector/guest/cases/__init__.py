"""Captures files that state what to compile in `KINSPECT_CASES`: they are loaded, not run."""
