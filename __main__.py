"""`python -m kinspect`: the command line."""

from .inspector.cli.main import console_script

console_script()
