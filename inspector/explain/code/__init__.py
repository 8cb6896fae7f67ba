"""Facts about one kernel's texts, line by line: pure values, for any user interface.

texts.py         the texts of a kernel (source, TTGIR, LLVM IR, assembly), read and split into lines
reading.py       all of them parsed, with the links and marks of their lines
links.py         which lines of one text belong to which of another
llir.py          the source positions of the lines of LLVM IR
marks.py         per line of assembly: loop depth, class, outstanding operations, findings
uses.py          where a register is written and read
folds.py         what can be folded away: debug directives, prologue, metadata
highlighting.py  the coloured pieces of a line
explanations.py  what an instruction does, and what a rule says
meanings.py      a sentence for each instruction, from meanings.yaml
"""
