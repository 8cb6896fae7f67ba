"""Runs a script and writes down every specialisation of a kernel that it would launch."""
