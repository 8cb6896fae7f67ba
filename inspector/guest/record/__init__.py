"""Recording of real launches on a machine with a GPU, and their replay for AMD targets.

Two halves. `startup.py` loads `recorder.py` into processes of the user's command, as the private
package `_kinspect_record`: it and what it imports import nothing but one another. `replay.py` runs
in a guest like any other capture.
"""
