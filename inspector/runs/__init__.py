"""Runs of the whole: what is asked for becomes jobs, jobs run in any executor, events come out."""
