"""Explains an instruction or a finding in lines of plain text.

What an instruction does by itself stands in `meanings.yaml`, by patterns over names. A name that
matches no pattern has no sentence; its class describes it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct

from ... import machines
from ...base.documents import own_yaml
from ...isa.mnemonics import CLASSES, access_bits, classify, lookup
from ...model import (
    Finding,
    Instruction,
    KernelReport,
    Location,
    Machine,
    MetricValue,
    OpInfo,
    WaitOp,
)
from ..registers_view import parked_text
from ..trials_view import tried_lines
from ..view import plural

_NO_UNITS = ("bool", "name", "mapping")
_TRAITS = frozenset({"transcendental", "packed", "sparse", "scaled", "dual", "transpose"})
"""The traits of instructions that are worth a word."""
_WAIT_VERDICTS: Mapping[str, str] = {
    "needed": "needed: a register that it waits for is used after it",
    "ordering": "for order: a barrier, a fence or a store comes after it",
    "over-strict": "stricter than it has to be",
    "idle": "nothing that it could wait for is outstanding",
    "missing": "missing: a register is used before it has surely arrived",
}


class CitedDocument(Protocol):
    """A document that a rule rests on."""

    @property
    def title(self) -> str: ...
    @property
    def url(self) -> str: ...


class ExplainedRule(Protocol):
    """The parts of a rule that explain its findings."""

    @property
    def id(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def explain(self) -> str: ...
    @property
    def references(self) -> Sequence[CitedDocument]: ...


def explain_instruction(instruction: Instruction | str, report: KernelReport | None = None) -> str:
    """Explains in lines of text what an instruction, or its line of assembly, does; "" for no code.

    The report's facts about it need an `Instruction`, which has a line number.
    """
    inst = _parsed(instruction) if isinstance(instruction, str) else instruction
    if inst is None:
        return ""
    arch = report.arch if report is not None else None
    machine = machines.load(arch) if arch is not None and arch in machines.names() else None
    sentence = meaning(inst.op, inst.operands)
    lines = [inst.mnemonic, *([sentence] if sentence else [])]
    lines += _class_lines(inst)
    lines += _cycle_lines(inst, machine)
    if report is not None and inst.line:
        lines += _kernel_lines(inst, report)
    return "\n".join(lines)


def explain_finding(
    finding: Finding,
    rules: Mapping[str, ExplainedRule] | None = None,
    unit_of: Callable[[str], str] | None = None,
) -> str:
    """Explains a finding: its message, cause, remedy, evidence, locations and references.

    Empty lines separate the paragraphs. Without `unit_of` figures have no units.
    """
    rule = (rules or {}).get(finding.rule)
    name = f" {rule.name}" if rule is not None else ""
    severity = "note" if finding.severity == "info" else finding.severity
    parts = [f"{finding.rule}{name}   {severity}, {finding.confidence}", finding.message]
    if rule is not None and rule.explain:
        parts.append("Why it matters\n" + " ".join(rule.explain.split()))
    if finding.advice:
        parts.append("What to change\n" + " ".join(finding.advice.split()))
    if finding.trials:
        parts.append("\n".join(["Tried on this kernel", *tried_lines(finding)]))
    if finding.evidence:
        figures = evidence(finding, unit_of)
        width = max(map(len, (name for name, _ in figures)))
        parts.append(
            "Evidence\n" + "\n".join(f"{name:<{width}}  {value}" for name, value in figures)
        )
    locations = [text for text in map(_location_line, finding.locations) if text]
    if locations:
        parts.append("Where\n" + "\n".join(locations))
    if rule is not None and rule.references:
        parts.append("References\n" + "\n".join(f"{r.title}\n{r.url}" for r in rule.references))
    return "\n\n".join(parts)


def _parsed(text: str) -> Instruction | None:
    """The instruction on a line of assembly; None if the line holds none."""
    code, _, comment = text.partition(";")
    code = code.partition("//")[0].strip()
    while code and (label := code.split(None, 1)[0]).endswith(":"):
        code = code[len(label) :].strip()
    if not code or code[0] in ".#":
        return None
    mnemonic, _, operands = code.partition(" ")
    operands = operands.strip()
    op = lookup(mnemonic)
    if op.cls == "unknown" and "_" not in mnemonic:
        return None
    cls = classify(op, operands, comment.strip())
    return Instruction(0, 0, mnemonic, operands, comment.strip(), op, cls)


def _class_lines(inst: Instruction) -> list[str]:
    bits = access_bits(inst.op, inst.operands)
    about = CLASSES.get(inst.cls)
    lines = [f"class {inst.cls}: {about}" if about else f"class {inst.cls}"]
    if bits is not None:
        per = "wave" if inst.op.name.startswith("s_") else "lane"
        lines.append(f"moves {bits} bits per {per}")
    traits = sorted(t.replace("_", " ") for t in inst.op.traits & _TRAITS)
    if traits:
        lines.append("it is " + ", ".join(traits))
    return lines


def _cycle_lines(inst: Instruction, machine: Machine | None) -> list[str]:
    """The cycles for which a matrix or vector instruction occupies its unit."""
    if machine is None:
        return []
    if inst.cls in ("mfma", "wmma"):
        cycles = machines.matrix_cycles(machine, inst.op.name, inst.operands)
        if cycles is None:
            return [f"its cycles on {machine.arch} are not known"]
        return [f"holds the matrix unit of its SIMD for {cycles} cycles ({machine.arch})"]
    if inst.cls == "valu":
        slow = "transcendental" in inst.op.traits
        table = machine.transcendental_cycles if slow else machine.valu_cycles
        figures = [f"{n} cycles in wave{size}" for size, n in sorted(table.items())]
        kind = "transcendental operation" if slow else "full-rate vector operation"
        return [f"a {kind} takes {' or '.join(figures)} ({machine.arch})"] if figures else []
    return []


def _kernel_lines(inst: Instruction, report: KernelReport) -> list[str]:
    line = inst.line
    lines: list[str] = []
    loops = {loop.id: loop for loop in report.loops}
    for wait in report.waits:
        if wait.line == line:
            lines += _wait_lines(wait)
    for op in report.memory_ops:
        if op.line == line and op.loop is not None:
            loop = loops.get(op.loop)
            if loop is not None and loop.hot:
                lines.append(f"runs in the hot loop {op.loop}")
    for access in report.accesses:
        if line in access.lines:
            lines.append(f"stems from {access.op} (TTGIR {access.line}), {access.layout}")
            if access.limited_by is not None:
                lines.append(
                    f"{figure(access.bits)} of {figure(access.widest)} bits per lane:"
                    f" {access.reason}"
                )
                if access.fix:
                    lines.append(f"fix: {access.fix}")
    for slot in report.spills:
        if line in slot.stores or line in slot.reloads:
            action = "spills a register to" if line in slot.stores else "reloads a spill from"
            offset = f" at offset {slot.offset}" if slot.offset is not None else ""
            lines.append(
                f"{action} scratch memory{offset}: {slot.size} bytes,"
                f" {plural(len(slot.stores), 'store')} and {plural(len(slot.reloads), 'reload')}"
            )
            if slot.value is not None:
                lines.append(f"it holds {parked_text(slot.value)}")
    for finding in report.findings:
        if line in finding.isa_lines:
            lines.append(f"{finding.rule} ({finding.severity}): {finding.message}")
    return ["", "In this kernel:", *lines] if lines else []


def _wait_lines(wait: WaitOp) -> list[str]:
    """A wait's verdict, a sufficient count, the producers, and the slack before the wait."""
    verdict = _WAIT_VERDICTS.get(wait.verdict or "", "")
    lines = [f"{wait.counter} ≤ {wait.n}: {verdict}" if verdict else f"{wait.counter} ≤ {wait.n}"]
    if wait.verdict == "over-strict":
        lines.append(
            f"{wait.counter}({wait.could_be}) would do"
            if wait.could_be is not None
            else f"no wait for {wait.counter} is needed here"
        )
    if wait.waits_for:
        numbers = ", ".join(str(line) for line in wait.waits_for[:6])
        ellipsis = ", …" if len(wait.waits_for) > 6 else ""
        lines.append(f"waits for ISA line {numbers}{ellipsis}")
    if wait.slack is not None:
        count = plural(wait.slack, "instruction")
        cycles = f" and {wait.slack_cycles} matrix cycles" if wait.slack_cycles else ""
        lines.append(f"{count}{cycles} lie between the youngest of these and the wait")
    return lines


def _location_line(location: Location) -> str:
    """A location and its text as a line; "" without a line number or file."""
    if location.kind == "source" and location.file:
        where = f"{location.file}:{location.line}" if location.line else location.file
    else:
        title = {"amdgcn": "ISA", "ttgir": "TTGIR"}.get(location.kind, location.kind)
        where = f"{title} {location.line}" if location.line else ""
    text = location.text.strip()
    return f"{where}   {text}" if text and where else where


def evidence(
    finding: Finding, unit_of: Callable[[str], str] | None = None
) -> list[tuple[str, str]]:
    """The figures that a finding rests on, as (name, value with its unit)."""
    figures = []
    for name, value in finding.evidence.items():
        unit = unit_of(name) if unit_of is not None else ""
        unit = "" if unit in _NO_UNITS else unit
        if value == 1 and unit.endswith("s"):
            unit = unit[:-1]
        figures.append((name, f"{figure(value)} {unit}".rstrip()))
    return figures


def figure(value: MetricValue) -> str:
    """A value as text: `-` if it is unknown, `yes` or `no` for a flag."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {figure(member)}" for name, member in value.items()) or "none"
    return str(value)


_MIXED = "8-, 6- or 4-bit floats, as the operands after it say"
_MATRIX = re.compile(
    r"v_(?P<op>mfma|smfmac|wmma|swmmac)(?:_scale(?:16)?)?_(?P<out>[a-z]+\d+)_"
    r"(?P<m>\d+)x(?P<n>\d+)x(?P<k>\d+)_?(?:(?P<blocks>\d+)b_?)?(?P<of>\w*)"
)
_CROSS_LANE = re.compile(r"\b(?:row_\w+|quad_perm|wave_\w+|dpp8):")


class _Sentences(Struct, frozen=True):
    """The contents of `meanings.yaml`, compiled.

    Args:
        types: type in a mnemonic -> its name.
        comparisons: relation in a comparison's mnemonic -> its name.
        patterns: (pattern of mnemonics, sentence), in order.
    """

    types: Mapping[str, str]
    type: re.Pattern[str]
    comparisons: Mapping[str, str]
    comparison: re.Pattern[str]
    patterns: tuple[tuple[re.Pattern[str], str], ...]


@functools.cache
def _sentences() -> _Sentences:
    raw: dict[str, Any] = own_yaml(Path(__file__).with_name("meanings.yaml"))
    types, comparisons = raw["types"], raw["comparisons"]
    return _Sentences(
        types=types,
        type=re.compile(rf"_({'|'.join(types)})(?=_|$)"),
        comparisons=comparisons,
        comparison=re.compile(rf"[vs]_cmp(?P<x>x)?k?_(?P<how>{'|'.join(comparisons)})_(\w+)$"),
        patterns=tuple((re.compile(pattern), text) for pattern, text in raw["sentences"]),
    )


def meaning(op: OpInfo, operands: str = "") -> str:
    """A sentence on what an instruction does; "" if none is known.

    The operands show, for example, whether a load goes to LDS.
    """
    name = op.name
    matrix = _MATRIX.match(name)
    if matrix is not None:
        return _matrix_sentence(matrix)
    compare = _sentences().comparison.match(name)
    if compare is not None:
        return _comparison_sentence(name, compare)
    if name.startswith("buffer_load") and re.search(r"\blds\b", operands):
        return "Loads from a buffer straight into LDS, past the VGPRs."
    text = _sentence(name)
    if text and name.startswith("v_") and _CROSS_LANE.search(operands) is not None:
        text += " Lanes take their input from other lanes."
    return text


@functools.lru_cache(maxsize=4096)
def _sentence(name: str) -> str:
    """Returns the sentence of the first pattern that a name matches, with its types filled in."""
    known = _sentences()
    text = next((text for pattern, text in known.patterns if pattern.match(name)), "")
    types = [known.types[type_] for type_ in known.type.findall(name)]
    last = types[-1] if types else "any type"
    if name.startswith("v_"):
        last += ", in each lane"
    between = f"{types[1]} to {types[0]}" if len(types) == 2 else "from one type to another"
    return text.format_map({"t": last, "carry": _carry(name), "from": between})


def _carry(name: str) -> str:
    """Returns the part of a sentence on the carry that an addition takes in or gives out."""
    if "_co_ci" in name or re.search(r"_(?:addc|subb|subbrev)_", name):
        return ", with the carry of the step before"
    return ", and the carry of it" if "_co_" in name else ""


def _matrix_sentence(match: re.Match[str]) -> str:
    m, n, k, blocks = match["m"], match["n"], match["k"], match["blocks"]
    sparse = ", A half zeros" if match["op"] in ("smfmac", "swmmac") else ""
    several = f", {blocks} blocks at once" if blocks else ""
    types = _sentences().types
    input_types = match["of"].removesuffix("_1k").removesuffix("1k")
    parts = [
        _MIXED if part == "f8f6f4" else types.get(part, part)
        for part in input_types.split("_")
        if part
    ]
    inputs = " and ".join(dict.fromkeys(parts))
    return (
        f"D = A × B + C on the matrix unit: A is {m} × {k}, B {k} × {n}"
        f"{', of ' + inputs if inputs else ''}; sums in {types.get(match['out'], match['out'])}"
        f"{sparse}{several}."
    )


def _comparison_sentence(name: str, match: re.Match[str]) -> str:
    kind = _sentences().types.get(match[3], match[3])
    relation = _sentences().comparisons[match["how"]]
    if match["how"] == "lg" and "float" not in kind:
        relation = "not equal to"
    if name.startswith("s_"):
        return f"Whether a is {relation} b ({kind}): the scalar condition."
    where = "EXEC: lanes where it does not hold stop" if match["x"] else "one bit per lane"
    return f"Whether a is {relation} b in each lane ({kind}), into {where}."
