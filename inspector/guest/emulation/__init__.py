"""Launches that are executed: compiled for the target, run by the host's emulator."""
