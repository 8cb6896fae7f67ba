"""`python -m kinspect.inspector.cli`."""

from kinspect.inspector.cli.main import console_script

console_script()
