"""Kernels made from their parsed source, without running any of their file.

A trace, or a file of Inductor's, may be anybody's. What is compiled of it is the text of a function
and the values of the names that it uses, both as data (`record/contents.py` says in which form):

    modules.py    reads them out of a file's syntax tree, where no recorder has written them down
    building.py   makes JITFunctions of them, without running a `def`
    guard.py      keeps Triton's code generator, which evaluates expressions of a kernel while it
                  compiles, to what Triton's language itself brings
    library.py    what that is
"""
