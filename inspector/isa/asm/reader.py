"""Reads assembly text in one pass: instructions, labels, locations, and what is said of kernels.

Compiler output, hand-written files and anything between: no order of directives is relied upon.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from ...model import OpInfo, SourceLoc
from ..mnemonics import FLOW_CLASSES, REFINED, classify, lookup
from .contents import SECTION_DIRECTIVES, Sections, UnitContents, lines_of
from .debugloc import LocationTable
from .expr import parse_int
from .includes import Includes, no_includes
from .macros import Expander, strip_comment, uses_macros
from .metadata import Metadata, read_metadata
from .rawcode import FILLER, RawFunction
from .resources import INFO_KEYS, Statements
from .symbols import COMPUTED, substitute, with_commas
from .target import Target
from .units import Unit, blank_block_comments
from .words import DATA_DIRECTIVES, MAX_WORDS, add_words, is_preload_header, is_reachable, words_of

# How every AMDGCN mnemonic begins; what an unknown word must look like to be taken for a new one.
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
_ISA_VERSION = re.compile(r"\s*(\d{1,2})\s*,\s*(\d{1,2})\s*,\s*(\d{1,2})")
_KEY_VALUE = re.compile(r"\s*(\w+)\s*=\s*(\S+)")
_PREPROCESSOR = re.compile(r"#\s*(?:define|include|if|ifdef|ifndef|elif|else|endif|undef)\b")
_TEMPORARY = re.compile(r"\.Ltmp\d+:$")  # thousands, where there is debug information
_FUNCTION_END = re.compile(r"\.Lfunc_end\d+$")

# Where raw text begins and how it ends.
_CAPTURES = {
    ".amdgpu_metadata": ".end_amdgpu_metadata",
    ".amd_amdgpu_hsa_metadata": ".end_amd_amdgpu_hsa_metadata",
    ".amdgpu_pal_metadata": ".end_amdgpu_pal_metadata",
    ".amd_kernel_code_t": ".end_amd_kernel_code_t",
}


def read_unit(unit: Unit, includes: Includes = no_includes) -> UnitContents:
    """Reads one unit of assembly text, with the files that it includes as far as they are given."""
    return _Reader(unit, includes).read()


class _Reader:
    def __init__(self, unit: Unit, includes: Includes) -> None:
        self._unit = unit
        self._includes = includes
        self._out = UnitContents()
        self._out.symbols.target = self._out.target = unit.target
        self._places = LocationTable()
        self._location: SourceLoc | None = None
        self._function: RawFunction | None = None
        self._last: RawFunction | None = None
        self._declared: set[str] = set()
        self._kernel: Statements | None = None
        self._section = Sections()
        self._words = 0  # of data in the code so far
        self._info: dict[str, str] | None = None
        self._named = False  # whether operands may hold symbols
        self._capture: tuple[str, list[str]] | None = None
        self._word = ""
        self._ops: dict[str, tuple[OpInfo, bool, bool]] = {}
        self._directives: dict[str, Callable[[str, int], None]] = {
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
            ".amdgcn_target": self._target,
            ".amd_amdgpu_isa": self._target,
            ".hsa_code_object_isa": self._isa_version,
            ".hsa_code_object_version": self._v2,
            ".amdhsa_code_object_version": self._version,
            ".amdhsa_kernel": self._amdhsa_kernel,
            ".end_amdhsa_kernel": self._end_amdhsa_kernel,
            ".amdgpu_hsa_kernel": self._hsa_kernel,
            ".incbin": self._incbin,
        }
        self._directives.update(dict.fromkeys(SECTION_DIRECTIVES, self._switch_section))
        self._directives.update(dict.fromkeys(DATA_DIRECTIVES, self._data))
        self._directives.update(dict.fromkeys(_CAPTURES, self._begin_capture))

    # ---- the pass

    def read(self) -> UnitContents:
        text = blank_block_comments(self._unit.text)
        # Hand-written code may leave out .type and .globl; the descriptors come last.
        self._declared.update(name.strip('"') for name in _KERNELS.findall(text))
        source = lines_of(text, self._unit.lines_before)
        if uses_macros(text):
            self._named = True
            source = iter(
                Expander(
                    source,
                    self._out.symbols,
                    self._out.omissions,
                    self._included,
                )
            )
        slashes = "//" in text or ".include" in text
        directives, ops = self._directives, self._ops
        ignored: set[str] = set()  # data directives: most lines of a file with debug sections
        for number, raw in source:
            line = raw.strip()
            if not line:
                continue
            if self._capture is not None:
                self._captured(raw, line)
                continue
            first = line[0]
            if first == ".":
                word = line.split(None, 1)[0]
                handler = directives.get(word)
                if handler is not None:
                    self._word = word
                    handler(line[len(word) :], number)
                elif word not in ignored:
                    if word == line and _TEMPORARY.match(word) and word[:-1] not in self._declared:
                        if self._function is not None:
                            function = self._function
                            function.labels.setdefault(word[:-1], len(function.rows))
                    elif ":" in word:
                        self._statement(line, number)
                    elif word.startswith(".amdhsa_"):
                        if self._kernel is not None:
                            value = strip_comment(line[len(word) :])
                            self._kernel.amdhsa[word.removeprefix(".amdhsa_")] = value
                    elif "=" in line[len(word) :].split(None, 1)[:1]:
                        self._assignment(strip_comment(line))
                    else:
                        ignored.add(word)
                if self._info is not None:
                    self._info = None
                continue
            if first == ";":
                if self._info is not None or raw[0] == ";":
                    self._comment(line)
                continue
            parts = line.split(None, 1)
            entry = ops.get(parts[0])
            if entry is None:
                self._statement(line, number)
                continue
            operands = parts[1] if len(parts) > 1 else ""
            comment = ""
            if ";" in operands:
                operands, _, comment = operands.partition(";")
            if slashes and "//" in operands:
                operands, _, tail = operands.partition("//")
                comment = comment or tail
            self._instruction(entry, parts[0], operands.rstrip(), comment, number)
        if self._capture is not None:
            self._end_capture()
            self._note("the text breaks off within its metadata")
        self._finish_function(None)
        return self._out

    def _note(self, text: str) -> None:
        if text not in self._out.notes:
            self._out.notes.append(text)

    def _included(self, name: str) -> Iterator[tuple[int, str]] | None:
        text = self._includes(name)
        if text is None:
            return None
        text = blank_block_comments(text)
        self._declared.update(name.strip('"') for name in _KERNELS.findall(text))
        return lines_of(text, 0)

    def _instruction(
        self,
        entry: tuple[OpInfo, bool, bool],
        mnemonic: str,
        operands: str,
        comment: str,
        number: int,
    ) -> None:
        function = self._function
        if function is None:
            if mnemonic in FILLER:  # what follows a function up to the next one's alignment
                return
            function = self._open_unnamed(number)
        op, is_flow, is_refined = entry
        if self._named or ("[" in operands and COMPUTED.search(operands)):
            operands = substitute(operands, self._out.symbols, names=self._named)
        if self._named or " " in operands.partition(",")[0]:
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

    def _statement(self, line: str, number: int) -> None:
        """Everything rare: labels, assignments, first uses of a mnemonic, what is none of these."""
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
                    self._word = word
                    handler(line[len(word) :], number)
                return
        code = strip_comment(line)
        if not code:
            return
        if line[0] == "#":
            if _PREPROCESSOR.match(line):
                self._out.omissions.add(
                    "preprocessor",
                    number,
                    f"line {number} is for the C preprocessor, which kinspect does not run: "
                    "run the file through it first",
                )
            return
        parts = code.split(None, 1)
        mnemonic = parts[0]
        operands = parts[1].rstrip() if len(parts) > 1 else ""
        if operands.startswith("=") or "=" in mnemonic:
            self._assignment(code)
            return
        if lookup(mnemonic).cls == "unknown" and lookup(mnemonic.lower()).cls != "unknown":
            mnemonic = mnemonic.lower()  # the assembler does not mind `s_getpc_B64`
        entry = self._ops.get(mnemonic)
        if entry is None:
            op = lookup(mnemonic)
            if op.cls == "unknown" and not _MNEMONIC.match(mnemonic):
                self._unrecognised(number)
                return
            entry = self._ops[mnemonic] = (
                op,
                op.cls in FLOW_CLASSES,
                op.cls in REFINED,
            )
        comment = line[len(code) :].strip().removeprefix(";").removeprefix("//")
        self._instruction(entry, mnemonic, operands, comment, number)

    def _unrecognised(self, number: int) -> None:
        if self._function is not None:
            self._function.unrecognised.append(number)
        else:
            self._out.omissions.add(
                "lines", number, f"line {number} is outside of any function and not recognised"
            )

    def _comment(self, line: str) -> None:
        if self._info is not None:
            match = _INFO_COMMENT.match(line)
            if match is not None and match[1] in INFO_KEYS:
                self._info.setdefault(match[1], match[2].strip())
                return
        if line[1:].strip() in _INFO_HEADERS and self._last is not None:
            self._info = self._statements(self._last.name).info

    # ---- functions and labels

    def _label(self, name: str, number: int) -> None:
        function = self._function
        if _FUNCTION_END.match(name):
            self._finish_function(number)
            return
        if name in self._declared or (function is None and not name.startswith((".L", "BB"))):
            if name.isdecimal():
                return
            self._finish_function(None)
            self._declared.discard(name)
            function = self._function = self._last = RawFunction(name, number)
            function.labels[name] = 0
            self._location = None
            return
        if function is None:
            return
        at = len(function.rows)
        if name.isdecimal():
            function.numbered.setdefault(name, []).append(at)
        else:
            function.labels.setdefault(name, at)

    def _open_unnamed(self, number: int) -> RawFunction:
        function = self._function = self._last = RawFunction(f"<line {number}>", number)
        function.notes.append("no symbol stands before this code")
        return function

    def _finish_function(self, number: int | None) -> None:
        function = self._function
        if function is None:
            return
        self._function = None
        last = function.rows[-1][0] if function.rows else function.line
        function.line_last = max(last, function.line) if number is None else number
        self._out.functions.append(function)

    def _statements(self, name: str) -> Statements:
        return self._out.statements.setdefault(name, Statements())

    # ---- directives

    def _loc(self, operands: str, number: int) -> None:
        self._location = self._places.loc(operands)

    def _file(self, operands: str, number: int) -> None:
        self._places.file(operands)

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
        self._out.symbols.define(name, value)
        # Symbols for operands bear plain names; the compiler's own all have dots.
        self._named = self._named or "." not in name

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

    def _target(self, operands: str, number: int) -> None:
        self._out.directives += 1
        self._adopt(Target.parse(operands))

    def _adopt(self, target: Target) -> None:
        if target.arch is not None and (self._out.target.arch in (None, target.arch)):
            self._out.symbols.target = self._out.target = target
            for name, value in target.symbols.items():
                self._out.symbols.define(name, str(value))

    def _isa_version(self, operands: str, number: int) -> None:
        match = _ISA_VERSION.match(operands)
        self._out.directives += 1
        if match is not None:
            self._adopt(Target.from_isa_version(int(match[1]), int(match[2]), int(match[3])))

    def _v2(self, operands: str, number: int) -> None:
        self._out.directives += 1
        self._out.code_object_version = 2

    def _version(self, operands: str, number: int) -> None:
        self._out.directives += 1
        value = parse_int(strip_comment(operands))
        if value is not None:
            self._out.code_object_version = value

    def _amdhsa_kernel(self, operands: str, number: int) -> None:
        name = strip_comment(operands).strip('"')
        self._out.directives += 1
        if name:
            self._out.kernels.add(name)
            self._kernel = self._statements(name)

    def _end_amdhsa_kernel(self, operands: str, number: int) -> None:
        self._kernel = None

    def _hsa_kernel(self, operands: str, number: int) -> None:
        name = strip_comment(operands).strip('"')
        self._out.directives += 1
        self._out.kernels.add(name)
        self._declared.add(name)

    def _incbin(self, operands: str, number: int) -> None:
        if self._function is not None and self._section.is_code:
            text = f"line {number} includes {strip_comment(operands)}, which is not read"
            self._out.omissions.add("include", number, text)

    # ---- sections and data

    def _switch_section(self, operands: str, number: int) -> None:
        self._section.switch(self._word, strip_comment(operands))

    def _data(self, operands: str, number: int) -> None:
        """Machine words in the code: instructions that some assembler did not know."""
        function = self._function
        if function is None or not self._section.is_code:
            return
        words = words_of(self._word, strip_comment(operands), self._out.symbols)
        self._words += len(words or ())
        if words is None or self._words > MAX_WORDS + number:
            if is_reachable(function):
                text = f"the data in the code on line {number} is not decoded"
                self._out.omissions.add("words", number, text)
            return
        header = len(function.rows) == 1 and is_preload_header(function.rows[0], words)
        add_words(function, words, number, self._location)
        if header:
            function.real_entry = len(function.rows)

    # ---- raw text inside directives

    def _begin_capture(self, operands: str, number: int) -> None:
        self._out.directives += 1
        self._capture = (self._word, [])

    def _captured(self, raw: str, line: str) -> None:
        assert self._capture is not None
        if line.startswith(_CAPTURES[self._capture[0]]):
            self._end_capture()
        else:
            self._capture[1].append(raw.rstrip("\r"))

    def _end_capture(self) -> None:
        assert self._capture is not None
        kind, lines = self._capture
        self._capture = None
        if kind == ".amd_kernel_code_t":
            if self._function is not None:
                statements = self._statements(self._function.name)
                for line in lines:
                    match = _KEY_VALUE.match(line)
                    if match is not None:
                        statements.kernel_code[match[1]] = match[2]
        elif kind != ".amdgpu_pal_metadata":
            self._metadata(read_metadata("\n".join(lines) + "\n"))

    def _metadata(self, metadata: Metadata) -> None:
        for name, figures in metadata.kernels.items():
            self._out.kernels.add(name)
            self._statements(name).metadata = figures
            display_name = figures.get(".name")
            if isinstance(display_name, str) and display_name and display_name != name:
                self._out.display_names[name] = display_name
        if metadata.target is not None:
            self._adopt(Target.parse(metadata.target))
        if self._out.code_object_version is None:
            self._out.code_object_version = metadata.code_object_version
        for note in metadata.notes:
            self._note(note)
