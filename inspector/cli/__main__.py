"""`python -m kinspect.inspector.cli`."""

import sys

if not getattr(sys.flags, "safe_path", False):
    del sys.path[0]  # the working folder, whose click.py is not ours

from .main import console_script

console_script()
