"""`KINSPECT_CASES`: files that state by themselves what to compile. They are loaded, not run."""
