"""Executes compiled kernels of AMD GPUs on the CPU: many workgroups in lockstep."""
