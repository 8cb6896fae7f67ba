"""The directives that describe kernels and the target, and the metadata between such directives."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial

from .contents import UnitContents
from .expr import parse_int
from .macros import strip_comment
from .metadata import AssemblyMetadata, read_metadata
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
