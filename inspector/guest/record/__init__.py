"""Recording of real launches on a machine with a GPU, and their replay for AMD targets.

Two lives: `startup.py` loads `recorder.py` and its siblings `journal.py`, `values.py` and
`sources.py` into processes of the user's command (as the private package `_kinspect_record`:
siblings are all that those modules import), and `replay.py` runs in a guest like any other capture.
"""
