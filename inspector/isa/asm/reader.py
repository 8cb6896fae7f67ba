"""Reads assembly text in one pass: instructions, labels, source locations and directives."""

from __future__ import annotations

import re
from functools import partial
from typing import NamedTuple

from ...model import OpInfo, SourceLoc
from ..mnemonics import FLOW_CLASSES, REFINED, classify, lookup
from .contents import UnitContents
from .debugloc import LocationTable
from .directives import Handler, KernelDirectives
from .machine_words import (
    DATA_DIRECTIVES,
    MAX_WORDS,
    add_words,
    is_preload_header,
    is_reachable,
    words_of,
)
from .macros import Expander, Lines, strip_comment, uses_macros
from .operands import COMPUTED, substitute, with_commas
from .rawcode import FILLER, RawFunction
from .resources import INFO_KEYS
from .units import (
    SECTION_DIRECTIVES,
    AssemblyUnit,
    Includes,
    SectionStack,
    blank_block_comments,
    lines_of,
    no_includes,
)

# The form of all AMDGCN mnemonics; an unknown word of this form is taken for a new one.
_MNEMONIC = re.compile(
    r"(?:s|v|ds|lds|global|flat|t?buffer|scratch|image|tensor|cluster|dummy)_[a-z0-9_]+$|exp(?:ort)?$"
)
_LABEL = re.compile(r'([\w.$@?]+|"[^"]*"):(?!:)')
_ASSIGNMENT = re.compile(r"([A-Za-z_.$][\w.$]*)\s*==?(?!=)\s*(.*)$", re.DOTALL)
_FUNCTION_TYPE = re.compile(
    r'\s*([^\s,]+|"[^"]*")\s*,\s*[@%#"]?(?:function|STT_FUNC|gnu_indirect_function)\b'
)
_KERNELS = re.compile(r"\.amdhsa_kernel[ \t]+([^\s;]+)")
_INFO_COMMENT = re.compile(r";\s*([A-Za-z_]\w*)\s*[:=]\s*(.*)$")
_INFO_HEADERS = frozenset({"Kernel info:", "Function info:"})
_PREPROCESSOR = re.compile(r"#\s*(?:define|include|if|ifdef|ifndef|elif|else|endif|undef)\b")
_TEMPORARY = re.compile(r"\.Ltmp\d+:$")  # thousands, where there is debug information
_FUNCTION_END = re.compile(r"\.Lfunc_end\d+$")


def read_unit(unit: AssemblyUnit, includes: Includes = no_includes) -> UnitContents:
    """Reads one unit of assembly text, with the files it includes as far as `includes` has them."""
    return _AssemblyReader(unit, includes).read()


class _Mnemonic(NamedTuple):
    """A mnemonic's entry in the table, with what the reader asks of every instruction."""

    op: OpInfo
    is_flow: bool  # whether control may go elsewhere after it
    is_refined: bool  # whether operands or comment may change its class


class _AssemblyReader:
    """Reads the lines of a unit into its contents, one function after the other."""

    def __init__(self, unit: AssemblyUnit, includes: Includes) -> None:
        self._unit = unit
        self._includes = includes
        self._contents = UnitContents()
        self._contents.symbols.target = self._contents.target = unit.target
        self._locations = LocationTable()
        self._location: SourceLoc | None = None
        self._function: RawFunction | None = None  # that instructions are added to
        self._latest: RawFunction | None = None  # the latest begun, which comments describe
        self._declared: set[str] = set()  # symbols whose labels begin functions
        self._kernels = KernelDirectives(self._contents, self._declared)
        self._sections = SectionStack()
        self._data_words = 0  # of data in the code so far
        self._info: dict[str, str] | None = None  # the resource comments being read
        self._symbolic_operands = False  # whether operands may hold symbols
        self._mnemonics: dict[str, _Mnemonic] = {}  # those used so far
        self._directives: dict[str, Handler] = {
            **self._kernels.handlers(),
            ".loc": self._loc,
            ".file": self._file,
            ".set": self._set,
            ".equ": self._set,
            ".equiv": self._set,
            ".type": self._type,
            ".globl": self._global,
            ".global": self._global,
            ".weak": self._global,
            ".protected": self._global,
            ".size": self._size,
            ".incbin": self._incbin,
            **{word: partial(self._switch_section, word) for word in SECTION_DIRECTIVES},
            **{word: partial(self._data, word) for word in DATA_DIRECTIVES},
        }

    def read(self) -> UnitContents:
        """Reads all lines; the frequent kinds here, the others in methods of their own."""
        source, has_slash_comments = self._source()
        directives, mnemonics, kernels = self._directives, self._mnemonics, self._kernels
        ignored: set[str] = set()  # directives that mean nothing here, most lines of some files
        for number, raw in source:
            line = raw.strip()
            if not line:
                continue
            if kernels.in_raw_text:
                kernels.add_raw_line(raw, self._function.name if self._function else None)
                continue
            first = line[0]
            if first == ".":
                word = line.split(None, 1)[0]
                handler = directives.get(word)
                if handler is not None:
                    handler(line[len(word) :], number)
                elif word not in ignored and not self._dotted(word, line, number):
                    ignored.add(word)
                self._info = None
                continue
            if first == ";":
                if self._info is not None or raw[0] == ";":
                    self._comment(line)
                continue
            parts = line.split(None, 1)
            entry = mnemonics.get(parts[0])
            if entry is None:
                self._statement(line, number)
                continue
            operands = parts[1] if len(parts) > 1 else ""
            comment = ""
            if ";" in operands:
                operands, _, comment = operands.partition(";")
            if has_slash_comments and "//" in operands:
                operands, _, tail = operands.partition("//")
                comment = comment or tail
            self._instruction(entry, parts[0], operands.rstrip(), comment, number)
        self._end()
        return self._contents

    def _end(self) -> None:
        """Ends what the text has left open."""
        if self._kernels.in_raw_text:
            self._kernels.end_raw_text(self._function.name if self._function else None)
            self._contents.add_note("the text breaks off within its metadata")
        self._finish_function(None)

    def _source(self) -> tuple[Lines, bool]:
        """The unit's lines, macros expanded, and whether `//` may begin comments in them."""
        text = self._prepared(self._unit.text)
        source = lines_of(text, self._unit.lines_before)
        if uses_macros(text):
            self._symbolic_operands = True
            contents = self._contents
            expander = Expander(source, contents.symbols, contents.omissions, self._included)
            source = iter(expander)
        return source, "//" in text or ".include" in text

    def _included(self, name: str) -> Lines | None:
        """The lines of an included file; None where it is not read."""
        text = self._includes(name)
        return None if text is None else lines_of(self._prepared(text), 0)

    def _prepared(self, text: str) -> str:
        """A text without block comments; its kernels count as declared."""
        text = blank_block_comments(text)
        self._declared.update(name.strip('"') for name in _KERNELS.findall(text))
        return text

    def _instruction(
        self,
        entry: _Mnemonic,
        mnemonic: str,
        operands: str,
        comment: str,
        number: int,
    ) -> None:
        """Adds an instruction to the current function, or to a new one without a name."""
        function = self._function
        if function is None:
            if mnemonic in FILLER:  # padding up to the alignment of the next function
                return
            function = self._open_unnamed(number)
        op, is_flow, is_refined = entry
        if self._symbolic_operands or ("[" in operands and COMPUTED.search(operands)):
            operands = substitute(operands, self._contents.symbols, names=self._symbolic_operands)
        if self._symbolic_operands or " " in operands.partition(",")[0]:
            operands = with_commas(operands)
        if comment:
            comment = comment.strip()
        if is_flow:
            function.flow_rows.append(len(function.rows))
        function.rows.append(
            (
                number,
                mnemonic,
                operands,
                comment,
                op,
                classify(op, operands, comment) if is_refined else op.cls,
                self._location,
                None,
            )
        )

    def _dotted(self, word: str, line: str, number: int) -> bool:
        """Acts on a line that begins with a dot and is no directive with a handler."""
        if word == line and _TEMPORARY.match(word) and word[:-1] not in self._declared:
            if self._function is not None:
                self._function.labels.setdefault(word[:-1], len(self._function.rows))
        elif ":" in word:
            self._statement(line, number)
        elif word.startswith(".amdhsa_"):
            if self._kernels.kernel is not None:
                value = strip_comment(line[len(word) :])
                self._kernels.kernel.amdhsa[word.removeprefix(".amdhsa_")] = value
        elif "=" in line[len(word) :].split(None, 1)[:1]:
            self._assignment(strip_comment(line))
        else:
            return False
        return True

    def _statement(self, line: str, number: int) -> None:
        """Reads the rare lines: labels, assignments, first uses of a mnemonic, unknown words."""
        label = _LABEL.match(line)
        if label is not None:
            self._label(label[1].strip('"'), number)
            line = line[label.end() :].strip()
            if not line or line[0] == ";":
                return
            if line[0] == ".":
                word = line.split(None, 1)[0]
                handler = self._directives.get(word)
                if handler is not None:
                    handler(line[len(word) :], number)
                return
        code = strip_comment(line)
        if not code:
            return
        if line[0] == "#":
            self._hash_line(line, number)
            return
        parts = code.split(None, 1)
        mnemonic = parts[0]
        operands = parts[1].rstrip() if len(parts) > 1 else ""
        if operands.startswith("=") or "=" in mnemonic:
            self._assignment(code)
            return
        if lookup(mnemonic).cls == "unknown" and lookup(mnemonic.lower()).cls != "unknown":
            mnemonic = mnemonic.lower()  # the assembler does not mind `s_getpc_B64`
        entry = self._mnemonics.get(mnemonic) or self._new_mnemonic(mnemonic)
        if entry is None:
            self._unrecognised(number)
            return
        comment = line[len(code) :].strip().removeprefix(";").removeprefix("//")
        self._instruction(entry, mnemonic, operands, comment, number)

    def _new_mnemonic(self, mnemonic: str) -> _Mnemonic | None:
        """Looks a mnemonic up at its first use; None for a word that is none."""
        op = lookup(mnemonic)
        if op.cls == "unknown" and not _MNEMONIC.match(mnemonic):
            return None
        entry = _Mnemonic(op, op.cls in FLOW_CLASSES, op.cls in REFINED)
        self._mnemonics[mnemonic] = entry
        return entry

    def _hash_line(self, line: str, number: int) -> None:
        """Notes a directive of the C preprocessor; other lines with `#` are comments."""
        if _PREPROCESSOR.match(line):
            self._contents.omissions.add(
                "preprocessor",
                number,
                f"line {number} is for the C preprocessor, which kinspect does not run: "
                "run the file through it first",
            )

    def _unrecognised(self, number: int) -> None:
        """Notes a line that is neither a statement nor an instruction."""
        if self._function is not None:
            self._function.unrecognised.append(number)
        else:
            self._contents.omissions.add(
                "lines", number, f"line {number} is outside of any function and not recognised"
            )

    def _comment(self, line: str) -> None:
        """Reads a resource comment, or the header that such comments follow."""
        if self._info is not None:
            match = _INFO_COMMENT.match(line)
            if match is not None and match[1] in INFO_KEYS:
                self._info.setdefault(match[1], match[2].strip())
                return
        if line[1:].strip() in _INFO_HEADERS and self._latest is not None:
            self._info = self._kernels.statements(self._latest.name).info

    def _label(self, name: str, number: int) -> None:
        """Begins or ends a function at its label, or adds a label to the current one."""
        function = self._function
        if _FUNCTION_END.match(name):
            self._finish_function(number)
            return
        if name in self._declared or (function is None and not name.startswith((".L", "BB"))):
            if name.isdecimal():
                return
            self._finish_function(None)
            self._declared.discard(name)
            function = self._function = self._latest = RawFunction(name, number)
            function.labels[name] = 0
            self._location = None
            return
        if function is None:
            return
        row = len(function.rows)
        if name.isdecimal():
            function.numbered.setdefault(name, []).append(row)
        else:
            function.labels.setdefault(name, row)

    def _open_unnamed(self, number: int) -> RawFunction:
        """Begins a function at an instruction that no symbol stands before."""
        function = self._function = self._latest = RawFunction(f"<line {number}>", number)
        function.notes.append("no symbol stands before this code")
        return function

    def _finish_function(self, number: int | None) -> None:
        """Ends the current function, at a line or (None) with its last instruction."""
        function = self._function
        if function is None:
            return
        self._function = None
        last_line = function.rows[-1][0] if function.rows else function.line
        function.line_last = max(last_line, function.line) if number is None else number
        self._contents.functions.append(function)

    def _loc(self, operands: str, number: int) -> None:
        self._location = self._locations.loc(operands)

    def _file(self, operands: str, number: int) -> None:
        self._locations.file(operands)

    def _set(self, operands: str, number: int) -> None:
        name, comma, value = strip_comment(operands).partition(",")
        if comma:
            self._define(name.strip(), value.strip())

    def _assignment(self, code: str) -> None:
        match = _ASSIGNMENT.match(code)
        if match is not None:
            self._define(match[1], match[2].strip())

    def _define(self, name: str, value: str) -> None:
        name = name.strip('"')
        self._contents.symbols.define(name, value)
        # Symbols in operands have plain names; the compiler's own all have dots.
        self._symbolic_operands = self._symbolic_operands or "." not in name

    def _type(self, operands: str, number: int) -> None:
        match = _FUNCTION_TYPE.match(operands)
        if match is not None:
            self._declared.add(match[1].strip('"'))
        else:  # `.globl` came first, and it is a variable
            self._declared.discard(operands.partition(",")[0].strip().strip('"'))

    def _global(self, operands: str, number: int) -> None:
        for name in strip_comment(operands).split(","):
            self._declared.add(name.strip().strip('"'))

    def _size(self, operands: str, number: int) -> None:
        name = operands.partition(",")[0].strip().strip('"')
        if self._function is not None and self._function.name == name:
            self._finish_function(number)

    def _incbin(self, operands: str, number: int) -> None:
        if self._function is not None and self._sections.is_code:
            text = f"line {number} includes {strip_comment(operands)}, which is not read"
            self._contents.omissions.add("include", number, text)

    def _switch_section(self, word: str, operands: str, number: int) -> None:
        self._sections.switch(word, strip_comment(operands))

    def _data(self, word: str, operands: str, number: int) -> None:
        """Adds machine words in the code: instructions that some assembler did not know."""
        function = self._function
        if function is None or not self._sections.is_code:
            return
        words = words_of(word, strip_comment(operands), self._contents.symbols)
        self._data_words += len(words or ())
        if words is None or self._data_words > MAX_WORDS + number:
            if is_reachable(function):
                text = f"the data in the code on line {number} is not decoded"
                self._contents.omissions.add("words", number, text)
            return
        header = len(function.rows) == 1 and is_preload_header(function.rows[0], words)
        add_words(function, words, number, self._location)
        if header:
            function.real_entry = len(function.rows)
