"""Syntax highlighting of a line: its coloured pieces, as columns and names of styles.

Each kind of text (assembly, MLIR, LLVM IR, Python) has one pattern that cuts a line into tokens; a
token that it does not recognise has no colour. The styles are those of the code views.
"""

from __future__ import annotations

import functools
import keyword
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType

Span = tuple[int, int, str]
"""First column, column past the end, name of the style."""

_CLASSES_OF_STYLE: Mapping[str, Sequence[str]] = {
    "matrix": ("mfma", "wmma"),
    "vector": ("valu", "acc_move", "cross_lane"),
    "scalar": ("salu",),
    "memory": (
        *("global_load", "global_store", "atomic", "smem_load", "smem_store", "image", "bvh"),
        *("gds", "export", "prefetch", "cache"),
    ),
    "lds": ("lds_read", "lds_write", "lds_atomic", "lds_direct", "lds_direct_store"),
    "scratch": ("scratch_load", "scratch_store"),
    "wait": ("wait", "alu_wait", "barrier", "barrier_signal"),
    "branch": ("branch", "control"),
}
CLASS_STYLES: Mapping[str, str] = MappingProxyType(
    {cls: style for style, classes in _CLASSES_OF_STYLE.items() for cls in classes}
)
"""Class of an instruction -> its style; all other classes have the style `other`."""

STRING = "string"
"""The `cls` of a line of Python that begins inside a string opened on a line above."""

# A line is cut into whole words, numbers, strings and comments. A token's style depends on its text
# alone, so that it can be cached: lines are coloured while they are drawn.
_STRING = r'"(?:[^"\\]|\\.)*"?'
_NUMBER = r"-?\d[\w.]*(?:(?<=[eE])[-+]\d+)?"
_PLAIN = rf'(?:[^()"]|{_STRING})'
_NESTED = rf"\((?:{_PLAIN}|\({_PLAIN}*\))*\)"
_ASM = re.compile(
    rf"(;.*|//.*|/\*.*?(?:\*/|$)|{_STRING}|[A-Za-z_$.@?][\w$.@?]*(?:\[[^\]]*\]|:(?!:)(?=\s|$))?|{_NUMBER})"
)
# Guesses an instruction's style from its name. The table of all mnemonics is more exact, but
# loading it would double the time until a text first appears.
_INSTRUCTION = re.compile(
    r"(?P<matrix>v_(?:smfmac|swmmac|(?:mfma|wmma)_(?!ld_scale)))"
    r"|(?P<other>[vs]_nop|ds_nop|s_(?:delay_alu|clause|set_?(?:prio|inst)|inst_|sendmsg|mem\w*time))"
    r"|(?P<wait>s_(?:wait|barrier(?!_(?:init|join|leave))))"
    r"|(?P<branch>s_(?:c?branch|call|(?:set|swap|add)_?pc|rfe|endpgm|trap|sleep|setreg|sethalt"
    r"|round_mode|denorm_mode|set_(?:gpr|vgpr)|barrier_|wakeup|get_barrier|code_end))"
    r"|(?P<memory>(?:t?buffer|global|flat|image|cluster|tensor)_|s_(?:buffer_|scratch_)?(?:load|store"
    r"|atomic|prefetch)_|s_(?:dcache|icache|gl1)_|ds_(?:gws|ordered|bvh)_|exp(?:ort)?$)"
    r"|(?P<vector>v_|ds_b?permute|ds_swizzle)|(?P<lds>(?:ds|lds)_)|(?P<scratch>scratch_)"
    r"|(?P<scalar>s_)"
)
_ASM_REGISTER = re.compile(
    r"(?:acc|ttmp|[vas])(?:\d+|\[[^\]]*\])|(?:vcc|exec|flat_scratch|xnack_mask)(?:_lo|_hi)?"
    r"|scc|m0|null|off"
)
_MLIR = re.compile(
    rf"(%[\w$.#-]+|loc\((?:{_PLAIN}|{_NESTED})*\)|[A-Za-z_!][\w.]*|{_NUMBER}|[@#^][\w$.]+|{_STRING}"
    r"|//.*)"
)
_MLIR_TYPE = re.compile(r"!.*|tensor|vector|memref|index|[su]?i\d+|b?f\d+\w*|tf32|none")
_MLIR_SHAPE = re.compile(r"(?:\d+x)+\w*")
_MLIR_KEYWORDS = frozenset(
    {
        *("module", "attributes", "public", "private", "iter_args", "to", "step", "true", "false"),
        *("dense", "else", "do", "in", "array", "unit"),
    }
)
_MLIR_OPERATIONS: Sequence[tuple[re.Pattern[str], str]] = (
    (re.compile(r"tt\.dot|.*\bwmma|.*\bmfma|.*scaled_dot|.*dot_scaled"), "matrix"),
    (re.compile(r".*\.buffer_(?:load|store)_?to_local|.*async_copy|.*async_tdm"), "lds"),
    (re.compile(r"tt\.(?:load|store|atomic|descriptor)|.*\.(?:buffer|global)_"), "memory"),
    (re.compile(r"ttg\.(?:local|memdesc|alloc)|triton_gpu\.(?:local|memdesc)|.*\blocal_"), "lds"),
    (re.compile(r".*wait|gpu\.barrier|.*barrier|.*sched"), "wait"),
    (re.compile(r"scf\.|cf\.|tt\.(?:return|func|call)|func\.|.*\.warp_spec"), "branch"),
    (re.compile(r"(?:ttg|triton_gpu)\.convert_layout"), "warning"),
    (re.compile(r"tt\.(?:divisibility|contiguity|constancy|pointer_range)"), "dim"),
    (re.compile(r"tt\.(?:reduce|scan|gather)"), "keyword"),
    (re.compile(r"arith\.|math\.|tt\."), "vector"),
)
_LLVM = re.compile(
    rf"(%[\w$.-]+|^[\w$.-]+:|!dbg !\d+|[A-Za-z_$][\w$.]*|{_NUMBER}|[@!#][\w$.]*|{_STRING}|;.*)"
)
_LLVM_TYPE = re.compile(r"i\d+|half|bfloat|float|double|fp128|ptr|void|label|metadata|addrspace")
_LLVM_LITERALS = frozenset(
    {"true", "false", "null", "undef", "poison", "zeroinitializer", "none", "inf", "nan"}
)
_LLVM_WORDS: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("load", "store", "atomicrmw", "cmpxchg", "fence"), "memory"),
        **dict.fromkeys(("br", "ret", "switch", "phi", "unreachable"), "branch"),
        **dict.fromkeys(("define", "declare", "attributes", "target", "distinct"), "keyword"),
        "x": "",
    }
)
_PYTHON = re.compile(
    r"(#.*|[rRbBfFuU]{0,2}(?:\"\"\".*?(?:\"\"\"|$)|'''.*?(?:'''|$)"
    r"|\"(?:[^\"\\]|\\.)*\"?|'(?:[^'\\]|\\.)*'?)"
    r"|@(?=[^\W\d])[\w.]+|(?:def|class)\s+\w+|\d[\w.]*(?:(?<=[eE])[-+]\d+)?|[^\W\d]\w*(?:\.[^\W\d]\w*)*)"
)
_QUOTES = re.compile(r"#.*|\"\"\"|'''|\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'")
_PYTHON_KEYWORDS = frozenset(keyword.kwlist)
_TRITON_PREFIXES = ("tl.", "triton.", "gl.", "gluon.", "ttgl.", "libdevice.")


def spans(kind: str, text: str, cls: str | None = None) -> list[Span]:
    """The coloured pieces of a line of a kind of text, in order and disjoint.

    Of assembly `cls` is the instruction's class (None: guessed from its name); of Python, `STRING`
    where the line begins inside a string.
    """
    if kind == "amdgcn":
        return _assembly(text, cls)
    if kind == "source":
        return _python(text, cls == STRING)
    if kind == "llir" and text.lstrip().startswith("#dbg_"):
        return [(len(text) - len(text.lstrip()), len(text), "dim")]
    pattern, style_of_token = (_MLIR, _mlir_style) if kind == "ttgir" else (_LLVM, _llvm_style)
    styled: list[Span] = []
    pieces = pattern.split(text)  # alternately the text between two tokens, and a token
    stop = 0
    for between, piece in zip(pieces[::2], pieces[1::2], strict=False):
        start = stop + len(between)
        stop = start + len(piece)
        name = style_of_token(piece)
        if name:
            styled.append((start, stop, name))
    return styled


def style_of(cls: str) -> str:
    """The style of instructions of a class."""
    return CLASS_STYLES.get(cls, "other")


def _assembly(text: str, cls: str | None) -> list[Span]:
    styled: list[Span] = []
    pieces = _ASM.split(text)
    stop = 0
    before_mnemonic = True  # the mnemonic is the first word after any labels
    operand_style = "keyword"
    for between, piece in zip(pieces[::2], pieces[1::2], strict=False):
        start = stop + len(between)
        stop = start + len(piece)
        name = _assembly_style(piece)
        if before_mnemonic and name != "comment":
            if name == "label":
                styled.append((start, stop, name))
                continue
            before_mnemonic = False
            if name == "directive":
                operand_style = "name"  # a directive's operands are mostly symbols
            elif name == "keyword":
                name = style_of(cls) if cls is not None else _mnemonic_style(piece)
        elif name in ("label", "keyword"):  # `offset:` looks like a label if a blank follows
            name = operand_style
        if name:
            styled.append((start, stop, name))
    return styled


@functools.lru_cache(maxsize=16384)
def _assembly_style(piece: str) -> str:
    """Returns the style of a token of assembly, whatever stands before it."""
    first = piece[0]
    if first in ";/":
        return "comment"
    if first == '"':
        return "string"
    if first == "-" or first.isdigit():
        return "literal"
    if piece[-1] == ":":
        return "label"
    if first == ".":
        return "name" if piece.startswith(".L") else "directive"
    return "register" if _ASM_REGISTER.fullmatch(piece) is not None else "keyword"


@functools.lru_cache(maxsize=4096)
def _mnemonic_style(word: str) -> str:
    match = _INSTRUCTION.match(word)
    return match.lastgroup or "" if match is not None else ""


@functools.lru_cache(maxsize=16384)
def _mlir_style(piece: str) -> str:
    first = piece[0]
    if first == "%":
        return "register"
    if first == '"':
        return "string"
    if first == "/":
        return "comment"
    if first == "^":
        return "label"
    if first in "@#":
        return "dim" if piece.startswith("#loc") else "name"
    if first == "-" or first.isdigit():
        shape = _MLIR_SHAPE.fullmatch(piece) is not None and not piece.startswith("0x")
        return "type" if shape else "literal"
    if piece.startswith("loc("):
        return "dim"
    if _MLIR_TYPE.fullmatch(piece) is not None:
        return "type"
    if piece in _MLIR_KEYWORDS:
        return "keyword"
    if "." not in piece:
        return ""
    return next((style for pattern, style in _MLIR_OPERATIONS if pattern.match(piece)), "name")


@functools.lru_cache(maxsize=16384)
def _llvm_style(piece: str) -> str:
    first = piece[0]
    if first == "%":
        return "register"
    if first == '"':
        return "string"
    if first == ";":
        return "comment"
    if piece[-1] == ":":
        return "label"
    if first == "#" or piece.startswith("!dbg"):
        return "dim"
    if first in "@!":
        return _intrinsic_style(piece) if piece.startswith("@llvm.amdgcn.") else "name"
    if first == "-" or first.isdigit() or piece in _LLVM_LITERALS:
        return "literal"
    if _LLVM_TYPE.fullmatch(piece) is not None:
        return "type"
    return _LLVM_WORDS.get(piece, "other")


def _intrinsic_style(name: str) -> str:
    if ".mfma" in name or ".wmma" in name or ".smfmac" in name:
        return "matrix"
    if "waitcnt" in name or "barrier" in name or "wait." in name or "sched" in name:
        return "wait"
    if ".ds." in name or ".lds" in name:
        return "lds"
    return "memory" if "buffer" in name or "global" in name else "name"


def _python(text: str, in_string: bool) -> list[Span]:
    """The coloured pieces of a line of Python, which may begin inside a triple-quoted string."""
    styled: list[Span] = []
    stop = 0
    if in_string:
        ends = [column for column in (text.find('"""'), text.find("'''")) if column >= 0]
        if not ends:
            return [(0, len(text), "string")] if text else []
        stop = min(ends) + 3
        styled.append((0, stop, "string"))
    pieces = _PYTHON.split(text[stop:])
    for between, piece in zip(pieces[::2], pieces[1::2], strict=False):
        start = stop + len(between)
        stop = start + len(piece)
        name = _python_style(piece)
        if name == "label":  # `def name`, `class name`
            keyword_text = piece.split(None, 1)[0]
            styled.append((start, start + len(keyword_text), "keyword"))
            start = stop - len(piece[len(keyword_text) :].lstrip())
        if name:
            styled.append((start, stop, name))
    return styled


@functools.lru_cache(maxsize=16384)
def _python_style(piece: str) -> str:
    """Returns the style of a token of Python: "" for none, `label` for the head of a definition."""
    if piece[0] == "#":
        return "comment"
    if piece[-1] in "\"'" or '"' in piece or "'" in piece:
        return "string"
    if piece[0] == "@":
        return "directive"
    if piece[0].isdigit():
        return "literal"
    if piece in _PYTHON_KEYWORDS:
        return "keyword"
    if piece.startswith(("def ", "class ")):
        return "label"
    return "name" if piece.startswith(_TRITON_PREFIXES) else ""


def within_strings(lines: Sequence[str]) -> frozenset[int]:
    """Lines of Python, from 0, that begin inside a triple-quoted string (`STRING` for `spans`)."""
    inside: list[int] = []
    open_quotes = ""
    for number, line in enumerate(lines):
        column = 0
        if open_quotes:
            inside.append(number)
            stop = line.find(open_quotes)
            if stop < 0:
                continue
            column, open_quotes = stop + 3, ""
        while (match := _QUOTES.search(line, column)) is not None:
            column = match.end()
            if match[0] in ('"""', "'''"):
                stop = line.find(match[0], column)
                if stop < 0:
                    open_quotes = match[0]
                    break
                column = stop + 3
    return frozenset(inside)
