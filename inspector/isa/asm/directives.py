"""The directives that describe kernels and the target, and the YAML metadata among them: the
runtime's description of each kernel.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

import yaml
from msgspec import Struct

from ...base.documents import check_yaml, yaml_loader
from ...base.errors import KinspectError
from ..launch import DYNAMIC_LDS_KINDS, GROUP_SIZE_KIND, POINTER_KIND
from .contents import UnitContents
from .expr import parse_int
from .macros import strip_comment
from .resources import Statements
from .target import AsmTarget

_ISA_VERSION = re.compile(r"\s*(\d{1,2})\s*,\s*(\d{1,2})\s*,\s*(\d{1,2})")
_KEY_VALUE = re.compile(r"\s*(\w+)\s*=\s*(\S+)")
# Directives that begin raw text, and those that end it.
_RAW_TEXT = {
    ".amdgpu_metadata": ".end_amdgpu_metadata",
    ".amd_amdgpu_hsa_metadata": ".end_amd_amdgpu_hsa_metadata",
    ".amdgpu_pal_metadata": ".end_amdgpu_pal_metadata",
    ".amd_kernel_code_t": ".end_amd_kernel_code_t",
}

Handler = Callable[[str, int], None]
"""Acts on a directive by its operands, comments included, and its line number."""


class KernelDirectives:
    """Reads what a unit states of its kernels and target into its contents.

    Attributes:
        kernel: the statements of the open `.amdhsa_kernel`; None outside of one.
        in_raw_text: whether the lines belong to `add_raw_line`.
    """

    def __init__(self, contents: UnitContents, declared: set[str]) -> None:
        """Begins a unit.

        Args:
            contents: the contents that are added to.
            declared: symbols declared as functions; kernels of code object v2 are added to them.
        """
        self.kernel: Statements | None = None
        self.in_raw_text = False
        self._contents = contents
        self._declared = declared
        self._raw_directive = ""
        self._raw_lines: list[str] = []

    def handlers(self) -> Mapping[str, Handler]:
        """The directives that this reads, but for `.amdhsa_*`, which are `kernel`'s own."""
        return {
            ".amdgcn_target": self._target,
            ".amd_amdgpu_isa": self._target,
            ".hsa_code_object_isa": self._isa_version,
            ".hsa_code_object_version": self._v2,
            ".amdhsa_code_object_version": self._version,
            ".amdhsa_kernel": self._amdhsa_kernel,
            ".end_amdhsa_kernel": self._end_amdhsa_kernel,
            ".amdgpu_hsa_kernel": self._hsa_kernel,
            **{word: partial(self._begin_raw_text, word) for word in _RAW_TEXT},
        }

    def statements(self, name: str) -> Statements:
        """The statements on a kernel or function, by its symbol."""
        return self._contents.statements.setdefault(name, Statements())

    def add_raw_line(self, raw: str, function: str | None) -> None:
        """Takes a line of raw text, or the directive that ends it.

        Args:
            raw: the line.
            function: the open function's name, which `.amd_kernel_code_t` belongs to.
        """
        if raw.strip().startswith(_RAW_TEXT[self._raw_directive]):
            self.end_raw_text(function)
        else:
            self._raw_lines.append(raw.rstrip("\r"))

    def end_raw_text(self, function: str | None) -> None:
        """Reads the raw text collected so far; `function` as for `add_raw_line`."""
        lines, self._raw_lines = self._raw_lines, []
        self.in_raw_text = False
        if self._raw_directive == ".amd_kernel_code_t":
            if function is not None:
                statements = self.statements(function)
                for line in lines:
                    match = _KEY_VALUE.match(line)
                    if match is not None:
                        statements.kernel_code[match[1]] = match[2]
        elif self._raw_directive != ".amdgpu_pal_metadata":
            self._add_metadata(read_metadata("\n".join(lines) + "\n"))

    def _begin_raw_text(self, word: str, operands: str, number: int) -> None:
        self._contents.directive_count += 1
        self._raw_directive = word
        self.in_raw_text = True

    def _add_metadata(self, metadata: AssemblyMetadata) -> None:
        """Adds the figures of the metadata to the statements on its kernels."""
        for name, figures in metadata.kernels.items():
            self._contents.kernels.add(name)
            self.statements(name).metadata = figures
            display_name = figures.get(".name")
            if isinstance(display_name, str) and display_name and display_name != name:
                self._contents.display_names[name] = display_name
        if metadata.target is not None:
            self._adopt(AsmTarget.parse(metadata.target))
        if self._contents.code_object_version is None:
            self._contents.code_object_version = metadata.code_object_version
        for note in metadata.notes:
            self._contents.add_note(note)

    def _target(self, operands: str, number: int) -> None:
        self._contents.directive_count += 1
        self._adopt(AsmTarget.parse(operands))

    def _adopt(self, target: AsmTarget) -> None:
        """Takes a target for the unit's, unless it contradicts the one stated before."""
        if target.arch is not None and (self._contents.target.arch in (None, target.arch)):
            self._contents.symbols.target = self._contents.target = target
            for name, value in target.symbols.items():
                self._contents.symbols.define(name, str(value))

    def _isa_version(self, operands: str, number: int) -> None:
        match = _ISA_VERSION.match(operands)
        self._contents.directive_count += 1
        if match is not None:
            self._adopt(AsmTarget.from_isa_version(int(match[1]), int(match[2]), int(match[3])))

    def _v2(self, operands: str, number: int) -> None:
        self._contents.directive_count += 1
        self._contents.code_object_version = 2

    def _version(self, operands: str, number: int) -> None:
        self._contents.directive_count += 1
        value = parse_int(strip_comment(operands))
        if value is not None:
            self._contents.code_object_version = value

    def _amdhsa_kernel(self, operands: str, number: int) -> None:
        name = strip_comment(operands).strip('"')
        self._contents.directive_count += 1
        if name:
            self._contents.kernels.add(name)
            self.kernel = self.statements(name)

    def _end_amdhsa_kernel(self, operands: str, number: int) -> None:
        self.kernel = None

    def _hsa_kernel(self, operands: str, number: int) -> None:
        name = strip_comment(operands).strip('"')
        self._contents.directive_count += 1
        self._contents.kernels.add(name)
        self._declared.add(name)


# Kernel arguments are most of the text. Needed of them are only dynamic LDS and the offsets of
# pointers and of the workgroup's size: they are cut down to these before parsing.
_ARGUMENTS = re.compile(r"^(?P<prefix> *(?:- +)?)\.?(?:args|Args):[ \t]*\r?\n", re.MULTILINE)
_DYNAMIC_LDS = re.compile(
    r"(\.value_kind|ValueKind):[ \t]*['\"]?"
    rf"({'|'.join(sorted(DYNAMIC_LDS_KINDS))})['\"]?[ \t]*\r?$",
    re.MULTILINE,
)
_OFFSET_AND_KIND = re.compile(
    r"\.offset:[ \t]*(\d+)[ \t]*\r?\n[ \t]*\.size:[ \t]*[28][ \t]*\r?\n"
    rf"[ \t]*\.value_kind:[ \t]*({POINTER_KIND}|{GROUP_SIZE_KIND})[ \t]*\r?$",
    re.MULTILINE,
)
"""An argument's offset and kind; LLVM writes the keys in alphabetical order."""

_COMMENT = re.compile(r"""("(?:\\.|[^"\\\n])*"|'[^'\n]*')|(?:;|//)[^\n]*""")
"""A comment of the assembler, which ends where the line does, or quoted text that may hold one."""
_DOCUMENT_MARK = re.compile(r"^(?:---|\.\.\.)(?=\s|$)", re.MULTILINE)
_NO_CONTENT = re.compile(r"(?:[^\S\n]*(?:[#%][^\n]*)?\n)*[^\S\n]*(?:[#%][^\n]*)?")
"""Blank lines, comments of YAML and its directives."""

# Code object v2 names its figures differently (AMDGPUUsage, "Code Object V2 AssemblyMetadata").
_V2_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "KernargSegmentSize": ".kernarg_segment_size",
        "GroupSegmentFixedSize": ".group_segment_fixed_size",
        "PrivateSegmentFixedSize": ".private_segment_fixed_size",
        "WavefrontSize": ".wavefront_size",
        "NumSGPRs": ".sgpr_count",
        "NumVGPRs": ".vgpr_count",
        "NumSpilledSGPRs": ".sgpr_spill_count",
        "NumSpilledVGPRs": ".vgpr_spill_count",
        "MaxFlatWorkGroupSize": ".max_flat_workgroup_size",
        "IsDynamicCallStack": ".uses_dynamic_stack",
    }
)
# amdhsa.version -> code object version; v6 shares v5's number and is told by its directive alone.
_VERSIONS: Mapping[tuple[int, int], int] = MappingProxyType({(1, 0): 3, (1, 1): 4})


class AssemblyMetadata(Struct, frozen=True):
    """The metadata of one text: figures by kernel symbol, under their code object v3+ names."""

    kernels: Mapping[str, Mapping[str, Any]]
    target: str | None = None
    code_object_version: int | None = None
    notes: tuple[str, ...] = ()


def read_metadata(text: str) -> AssemblyMetadata:
    """Reads the YAML between `.amdgpu_metadata` (or the v2 directive) and its end.

    Damaged metadata gives an empty result with a note; nothing is raised.
    """
    document, problem = _load(text)
    if problem:
        return AssemblyMetadata({}, notes=(f"the kernel metadata cannot be read: {problem}",))
    if not isinstance(document, dict):
        return AssemblyMetadata({}, notes=("the kernel metadata is not a mapping",))
    v2 = "Kernels" in document
    kernels: dict[str, Mapping[str, Any]] = {}
    entries = document.get("Kernels" if v2 else "amdhsa.kernels")
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict):
            figures = _flatten_v2(entry) if v2 else entry
            symbol = figures.get(".symbol") or figures.get(".name")
            if symbol is not None:
                name = str(symbol).removesuffix(".kd").removesuffix("@kd")
                kernels.setdefault(name, MappingProxyType(figures))
    target = document.get("amdhsa.target")
    return AssemblyMetadata(
        MappingProxyType(kernels),
        target if isinstance(target, str) else None,
        2 if v2 else _version(document.get("amdhsa.version")),
    )


def _load(text: str) -> tuple[Any, str]:
    """Parses the YAML: (document, "") or (None, why it cannot be read)."""
    shortened = _without_arguments(_first_document(text))
    try:
        check_yaml(shortened, "it")
        return yaml.load(shortened, Loader=yaml_loader()), ""
    except KinspectError:
        return None, "it is nested too deeply, or repeats itself without end"
    except yaml.MarkedYAMLError as error:
        return None, " ".join((error.problem or "it is not YAML").split())
    except Exception:
        # PyYAML's constructors raise what their conversions of dates and numbers raise.
        return None, "it is not YAML"


def _first_document(text: str) -> str:
    """The part of the text that LLVM reads: no comments, and nothing behind the first document."""
    if ";" in text or "//" in text:
        text = _COMMENT.sub(lambda match: match[1] or "", text)
    documents = _DOCUMENT_MARK.split(text)
    return next((part for part in documents if not _NO_CONTENT.fullmatch(part)), "")


def _without_arguments(text: str) -> str:
    """The text with each kernel's list of arguments cut down to what `read_metadata` needs."""
    pieces = []
    position = 0
    for match in _ARGUMENTS.finditer(text):
        if match.start() < position:
            continue
        prefix = match["prefix"]
        pieces.append(text[position : match.start()])
        start = position = match.end()
        column = len(prefix)
        while position < len(text):
            stop = text.find("\n", position)
            stop = len(text) if stop < 0 else stop + 1
            line = text[position:stop]
            body = line.lstrip(" ")
            indent = len(line) - len(body)
            # A list may stand at its key's own column; anything else there ends it.
            inside = indent > column or (indent == column and body.startswith("- "))
            if not inside or not body.strip():
                break
            position = stop
        dynamic = _DYNAMIC_LDS.search(text, start, position)
        arguments = [f"{{{dynamic[1]}: {dynamic[2]}}}"] if dynamic is not None else []
        arguments += [
            f"{{.offset: {argument[1]}, .value_kind: {argument[2]}}}"
            for argument in _OFFSET_AND_KIND.finditer(text, start, position)
        ]
        flow_list = f"[{', '.join(arguments)}]" if arguments else "null"
        pieces.append(f"{prefix}.args: {flow_list}\n")
    pieces.append(text[position:])
    return "".join(pieces)


def _flatten_v2(entry: Mapping[str, Any]) -> dict[str, Any]:
    """A kernel's entry of code object v2, under the names of v3."""
    figures: dict[str, Any] = {".name": entry.get("Name"), ".symbol": entry.get("SymbolName")}
    figures[".args"] = entry.get(".args", entry.get("Args"))
    properties = entry.get("CodeProps")
    if isinstance(properties, dict):
        figures |= {new: properties[old] for old, new in _V2_NAMES.items() if old in properties}
    attributes = entry.get("Attrs")
    if isinstance(attributes, dict) and "ReqdWorkGroupSize" in attributes:
        figures[".reqd_workgroup_size"] = attributes["ReqdWorkGroupSize"]
    return figures


def _version(value: Any) -> int | None:
    if isinstance(value, list) and len(value) == 2 and all(isinstance(v, int) for v in value):
        return _VERSIONS.get((value[0], value[1]), 5 if value[0] == 1 and value[1] >= 2 else None)
    return None
