"""The Python interface: what the package `kinspect` offers to programs and notebooks.

`kinspect.NAME` is looked up here when it is first used: importing the package imports none of it.
"""
