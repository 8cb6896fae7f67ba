"""Code that runs inside the user's interpreter, next to the user's Triton.

Nothing here may import the rest of kinspect, or anything but the standard library and Triton: the
interpreter named by `--python` need not have kinspect's dependencies. It is started by path
(`bootstrap.py`), loads itself as the private package `_kinspect_guest`, and keeps to the syntax of
Python 3.9.
"""
