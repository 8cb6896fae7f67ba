"""The compiler's passes over one kernel, and what each changed."""
