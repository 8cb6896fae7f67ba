"""Profilers found, their command lines, the passes of a run and its manifest."""
