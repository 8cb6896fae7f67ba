"""The purpose of each wait: a dataflow of outstanding memory operations over the control flow.

counters.py        instruction -> counters that it raises; wait -> counters that it waits for
registers.py       registers as numbers
steps.py           a function reduced to what matters to its counters
pending.py         what is outstanding at each point, and registers touched too early
feasible.py        which of those missing waits are missing on a path that the code can take
ranges.py          values of scalar registers, for feasible.py
verdicts.py        the purpose of each wait: needed, over-strict, ordering or idle
unwaited_stores.py  global stores that come to a barrier without a wait, and later loads
slack.py           how long before a wait its operation was issued
"""
