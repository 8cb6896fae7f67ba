"""What each wait waits for: a dataflow of outstanding memory operations over the real control flow.

events.py    instruction -> the counters that it raises and the registers it will write
pending.py   what is outstanding at each point, and registers touched too early (missing waits)
feasible.py  which of those missing waits are missing on a path that the code can take
counts.py    how many operations each counter may have outstanding, at most
verdicts.py  what each wait is there for: needed, over-strict, ordering or idle
slack.py     how long before a wait the operation that it waits for was issued
"""
