"""Facts about one kernel's texts, line by line: pure values, for any user interface.

texts.py     the texts of a kernel (source, TTGIR, LLIR, assembly), read and split into lines
links.py     which lines of one text belong to which of another
marks.py     per line of assembly: loop depth, class, outstanding operations, findings
uses.py      where a register is written and read
folds.py     what can be folded away: debug directives, prologue, metadata
spans.py     the coloured pieces of a line
explain.py   what an instruction does, and what a rule says
"""
