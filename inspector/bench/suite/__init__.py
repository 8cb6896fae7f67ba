"""Kernel files as the host knows them, read and never executed, and what runs of them gave."""
