"""`Resources` of a kernel from what an assembly text states in up to five places.

The places are the YAML metadata, the `.amdhsa_kernel` directives, the comments after a function
(`; Kernel info:`), the `.set` symbols, and code object v2's `.amd_kernel_code_t`. One table says
which place a field is taken from and which others must agree.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from msgspec import Struct, field

from ...model import Resources
from ..launch import adds_lds, from_directives, group_size_offset, pointer_offsets
from .expr import parse_int
from .operands import SymbolTable

_LEADING_NUMBER = re.compile(r"\d{1,18}(?= bytes)")


class Statements(Struct):
    """The raw statements on one kernel or function: key -> text, by the place they stand in.

    Args:
        metadata: an entry of the YAML metadata, decoded.
        amdhsa: the `.amdhsa_*` directives, without the prefix.
        info: the comments after the function.
        kernel_code: the fields of `.amd_kernel_code_t`.
    """

    metadata: Mapping[str, Any] = field(default_factory=dict)
    amdhsa: dict[str, str] = field(default_factory=dict)
    info: dict[str, str] = field(default_factory=dict)
    kernel_code: dict[str, str] = field(default_factory=dict)


class _Source(Struct, frozen=True):
    """A statement of a figure: its place and key, and the conversion to the field's unit."""

    place: str
    key: str
    convert: Callable[[int], int] | None = None

    @property
    def label(self) -> str:
        """The name of the statement in messages."""
        return _LABELS[self.place].format(self.key)


_LABELS: Mapping[str, str] = MappingProxyType(
    {
        "metadata": "metadata {}",
        "amdhsa": ".amdhsa_{}",
        "info": "comment {}",
        "set": "symbol {}",
        "kernel_code": "amd_kernel_code_t {}",
    }
)


def _wave32(flag: int) -> int:
    return 32 if flag else 64


def _lanes(count: int) -> int:
    return count if count in (32, 64) else -1


def _power(exponent: int) -> int:
    return 1 << exponent if 0 <= exponent < 16 else -1


class _Field(Struct, frozen=True):
    """A field of `Resources`: the places it is taken from, in order, and those to compare with.

    `default` is what the assembler puts where `.amdhsa_kernel` leaves the directive out and nothing
    else states the figure (AMDGPUUsage, ".amdhsa Assembler Directives").
    """

    name: str
    sources: tuple[_Source, ...]
    checks: tuple[_Source, ...] = ()
    default: int | None = None


_metadata = partial(_Source, "metadata")
_directive = partial(_Source, "amdhsa")
_comment = partial(_Source, "info")
_symbol = partial(_Source, "set")
_kernel_code = partial(_Source, "kernel_code")

_FIELDS: tuple[_Field, ...] = (
    _Field("vgpr_count", (_metadata(".vgpr_count"),), (_comment("TotalNumVgprs"),)),
    _Field(
        "agpr_count",
        (_metadata(".agpr_count"), _comment("NumAgprs"), _symbol("num_agpr")),
        (_comment("NumAgprs"), _symbol("num_agpr")),
    ),
    _Field(
        "arch_vgpr_count",
        (_comment("NumVgprs"), _symbol("num_vgpr")),
        (_symbol("num_vgpr"),),
    ),
    _Field(
        "next_free_vgpr",
        (_directive("next_free_vgpr"),),
        (_comment("NumVGPRsForWavesPerEU"),),
    ),
    _Field("accum_offset", (_directive("accum_offset"),), (_comment("AccumOffset"),)),
    _Field("vgprs_for_waves", (_comment("NumVGPRsForWavesPerEU"),)),
    _Field(
        "sgpr_count",
        (_metadata(".sgpr_count"), _comment("TotalNumSgprs"), _comment("NumSgprs")),
        (_comment("TotalNumSgprs"), _comment("NumSgprs")),
    ),
    _Field("next_free_sgpr", (_directive("next_free_sgpr"),)),
    _Field("sgprs_for_waves", (_comment("NumSGPRsForWavesPerEU"),)),
    _Field("vgpr_spill_count", (_metadata(".vgpr_spill_count"),)),
    _Field("sgpr_spill_count", (_metadata(".sgpr_spill_count"),)),
    _Field(
        "scratch_bytes",
        (
            _metadata(".private_segment_fixed_size"),
            _directive("private_segment_fixed_size"),
            _kernel_code("workitem_private_segment_byte_size"),
            _comment("ScratchSize"),
            _symbol("private_seg_size"),
        ),
        (
            _directive("private_segment_fixed_size"),
            _kernel_code("workitem_private_segment_byte_size"),
            _comment("ScratchSize"),
        ),
        default=0,
    ),
    _Field(
        "lds_bytes",
        (
            _metadata(".group_segment_fixed_size"),
            _directive("group_segment_fixed_size"),
            _kernel_code("workgroup_group_segment_byte_size"),
            _comment("LDSByteSize"),
        ),
        (
            _directive("group_segment_fixed_size"),
            _kernel_code("workgroup_group_segment_byte_size"),
            _comment("LDSByteSize"),
        ),
        default=0,
    ),
    _Field(
        "kernarg_bytes",
        (
            _metadata(".kernarg_segment_size"),
            _directive("kernarg_size"),
            _kernel_code("kernarg_segment_byte_size"),
        ),
        (_directive("kernarg_size"), _kernel_code("kernarg_segment_byte_size")),
    ),
    _Field(
        "wave_size",
        (
            _metadata(".wavefront_size", _lanes),
            _directive("wavefront_size32", _wave32),
            _kernel_code("wavefront_size", _power),
        ),
        (
            _directive("wavefront_size32", _wave32),
            _kernel_code("wavefront_size", _power),
        ),
    ),
    _Field("max_workgroup_size", (_metadata(".max_flat_workgroup_size"),)),
    _Field("code_bytes", (_comment("codeLenInByte"),)),
    _Field("occupancy", (_comment("Occupancy"),)),
)
_FLAGS: tuple[_Field, ...] = (
    _Field(
        "wgp_mode",
        (
            _metadata(".workgroup_processor_mode"),
            _directive("workgroup_processor_mode"),
            _kernel_code("enable_wgp_mode"),
        ),
        (_directive("workgroup_processor_mode"),),
    ),
    _Field(
        "uses_dynamic_stack",
        (
            _metadata(".uses_dynamic_stack"),
            _directive("uses_dynamic_stack"),
            _kernel_code("is_dynamic_callstack"),
            _symbol("has_dyn_sized_stack"),
        ),
        (_directive("uses_dynamic_stack"),),
    ),
    _Field(
        "private_segment_buffer",
        (
            _directive("user_sgpr_private_segment_buffer"),
            _kernel_code("enable_sgpr_private_segment_buffer"),
        ),
        default=False,
    ),
)
INFO_KEYS = frozenset(
    source.key
    for figure in (*_FIELDS, *_FLAGS)
    for source in (*figure.sources, *figure.checks)
    if source.place == "info"
)
"""The keys of resource comments that state a kernel's resources."""
# (figure, figure that it must not be less than, problem); LLVM only ever rounds up.
_COVERS: tuple[tuple[str, str, str], ...] = (
    ("next_free_vgpr", "vgpr_count", "asks for fewer VGPRs than the kernel uses"),
    ("accum_offset", "arch_vgpr_count", "puts AGPRs where VGPRs are in use"),
    ("vgpr_count", "arch_vgpr_count", "is less than the architectural VGPRs alone"),
)


def read_resources(name: str, statements: Statements, symbols: SymbolTable) -> Resources:
    """Reads and cross-checks what a text states of one kernel or device function.

    Args:
        name: its symbol.
        statements: the raw statements.
        symbols: the text's whole symbol table, for values that are expressions.
    """
    values, disagreements = _stated_values(name, statements, symbols)
    if "agpr_count" not in values and "accum_offset" in values and "next_free_vgpr" in values:
        # A unified register file: AGPRs are the registers past the offset they start at.
        values["agpr_count"] = max(values["next_free_vgpr"] - values["accum_offset"], 0)
    for field_name, covered, problem in _COVERS:
        value, least = values.get(field_name), values.get(covered)
        if value is not None and least is not None and value < least:
            disagreements.append(f"{field_name} {value} {problem} ({covered} {least})")
    size = statements.metadata.get(".reqd_workgroup_size")
    if isinstance(size, list) and len(size) == 3 and all(type(n) is int and n > 0 for n in size):
        values["reqd_workgroup_size"] = tuple(size)
    values["dynamic_lds"] = adds_lds(statements.metadata.get(".args"))
    values["pointers"] = pointer_offsets(statements.metadata.get(".args"))
    values["group_size_offset"] = group_size_offset(statements.metadata.get(".args"))
    directives = {key: _number(raw, symbols) for key, raw in statements.amdhsa.items()}
    values["wave_start"] = from_directives(
        {key: number for key, number in directives.items() if number is not None}
    )
    return Resources(**values, disagreements=tuple(disagreements))


def _stated_values(
    name: str, statements: Statements, symbols: SymbolTable
) -> tuple[dict[str, Any], list[str]]:
    """The stated fields of `Resources` by name, and what statements disagree in."""
    values: dict[str, Any] = {}
    disagreements: list[str] = []
    for figure in (*_FIELDS, *_FLAGS):
        statement = _first_statement(figure.sources, name, statements, symbols)
        if statement is None:
            if statements.amdhsa and figure.default is not None:
                values[figure.name] = figure.default
            continue
        source, value = statement
        values[figure.name] = bool(value) if figure in _FLAGS else value
        compared = set()
        for check in figure.checks:
            checked_value = _stated_value(check, name, statements, symbols)
            if checked_value is None or check == source or checked_value in compared:
                continue
            compared.add(checked_value)
            if values[figure.name] != (bool(checked_value) if figure in _FLAGS else checked_value):
                disagreements.append(
                    f"{figure.name}: {source.label} says {value}, "
                    f"{check.label} says {checked_value}"
                )
    return values, disagreements


def _first_statement(
    sources: tuple[_Source, ...], name: str, statements: Statements, symbols: SymbolTable
) -> tuple[_Source, int] | None:
    """The first of the sources that states a value, and the value."""
    for source in sources:
        value = _stated_value(source, name, statements, symbols)
        if value is not None:
            return source, value
    return None


def _stated_value(
    source: _Source, name: str, statements: Statements, symbols: SymbolTable
) -> int | None:
    """The value that one source states, in the field's unit; None without one."""
    raw: Any
    if source.place == "set":
        # LLVM 22 names the symbol after the function, Triton's LLVM puts .L in front.
        raw = None
        for symbol in (f".L{name}.{source.key}", f"{name}.{source.key}"):
            if symbol in symbols:
                raw = symbols.value(symbol)
                break
    else:
        raw = getattr(statements, source.place).get(source.key)
    value = _number(raw, symbols)
    if value is not None and source.convert is not None:
        value = source.convert(value)
    return None if value is None or value < 0 else value


def _number(raw: Any, symbols: SymbolTable) -> int | None:
    if isinstance(raw, int):  # bool included
        return int(raw)
    if not isinstance(raw, str):
        return None
    number = parse_int(raw)
    if number is not None:
        return number
    leading = _LEADING_NUMBER.match(raw)  # "65536 bytes/workgroup (compile time only)"
    return int(leading[0]) if leading is not None else symbols.evaluate(raw)
