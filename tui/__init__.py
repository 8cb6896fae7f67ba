"""The terminal UI: screens over `Report` and the pipeline's events. It computes no figure.

app.py        the application: pages, keys, themes, what is open
session.py    what has been read and compiled so far, as rows
feed.py       runs the pipeline in a process of its own and hands its events over
watching.py   notices files that were saved
widgets/      views that several screens use (code, bars, cards, plots)
screens/      one folder a page, one file a smaller screen
"""
