"""What each wait waits for: a dataflow of outstanding memory operations over the real control flow.

counters.py  wait -> the counters that it waits for; instruction -> those that it raises
pending.py   what is outstanding at each point, how much, and registers touched too early
feasible.py  which of those missing waits are missing on a path that the code can take
verdicts.py  what each wait is there for: needed, over-strict, ordering or idle
slack.py     how long before a wait the operation that it waits for was issued
"""
