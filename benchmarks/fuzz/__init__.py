"""Fuzzing of every reader of files that a stranger may have written.

    python -m benchmarks.fuzz --minutes 10
    python -m benchmarks.fuzz --minutes 2 --reader report --seed 7

The property: whatever a file holds, a reader gives what it could read, or a `KinspectError`, within
20 seconds and 2 GB.
"""
