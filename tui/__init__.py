"""The terminal UI: screens over `Report` and the pipeline's events. It computes no figure.

app.py        the application: pages, keys, themes, what is open
session.py    what has been read and compiled so far, as rows
feed.py       runs the pipeline in a thread and hands its events over
widgets/      views that several screens use (code, bars, cards, plots)
screens/      one file a screen
"""
