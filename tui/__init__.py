"""The terminal UI: pages over `Report` and the pipeline's events. It computes no figure.

app.py        the application: pages, keys, themes, what is open; application.py is its base
command.py    `kinspect tui`; terminal.py runs it and restores the terminal, web.py in a browser
session.py    the kernels, failures and notes of a run so far
feed.py       runs the pipeline in a child process and hands its events over
watching.py   notices files that were saved
preferences.py settings that last from one start to the next
widgets/      views that several pages use (code, lists, tables, cards, plots)
screens/      a folder for each page, a file for each dialogue of several pages
"""
