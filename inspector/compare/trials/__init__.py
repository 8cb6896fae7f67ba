"""Cures that are tried: the changes that may be rid of a kernel's findings are compiled.

`candidates.py` says which, `running.py` compiles them and, of the two that helped a finding most,
both together (`combining.py`); `outcome.py` says what came of one, `front.py` which no other beats.
"""
