"""The purpose of each wait: a dataflow of outstanding memory operations over the control flow.

waits.py           wait -> counters that it waits for
counters.py        instruction -> counters that it raises
registers.py       registers as numbers
steps.py           a function reduced to what matters to its counters
pending.py         what is outstanding at each point, and registers touched too early
counter_values.py  the value that each counter may have at each point
feasible.py        which of those missing waits are missing on a path that the code can take
ranges.py          values of scalar registers, for feasible.py
verdicts.py        the purpose of each wait: needed, over-strict, ordering or idle
unwaited_stores.py  global stores that come to a barrier without a wait, and later loads
slack.py           how long before a wait its operation was issued
"""
