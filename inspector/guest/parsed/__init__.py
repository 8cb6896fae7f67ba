"""Kernels made from their parsed source, without running any code of their file.

A trace, or a file of Inductor's code, may come from anybody. Only the text of a function and the
values of the names that it uses are compiled, both as data (format: `record/kernel_source.py`):

    modules.py    reads them from a file's syntax tree, where no recorder has written them
    building.py   makes JITFunctions of them without running a `def`
    guard.py      restricts Triton's code generator, which evaluates expressions of a kernel while
                  it compiles, to values of Triton's language
    library.py    the values of Triton's language
"""
