"""`python -m kinspect.inspector.cli`."""

from .main import console_script

console_script()
