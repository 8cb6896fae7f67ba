"""What an instruction does and what this kernel suffers of it; what a rule says. Plain lines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from ... import machines
from ...isa.mnemonics import CLASSES, access_bits, classify, lookup
from ...model import Finding, Instruction, KernelReport, Location, Machine, MetricValue, WaitOp
from ..view import plural
from .meanings import meaning

_NO_UNITS = ("bool", "name", "mapping")
_VERDICTS: Mapping[str, str] = {
    "needed": "needed: a register that it waits for is used after it",
    "ordering": "for order: a barrier, a fence or a store comes after it",
    "over-strict": "stricter than it has to be",
    "idle": "nothing that it could wait for is outstanding",
    "missing": "missing: a register is used before it has surely arrived",
}


class Reference(Protocol):
    """A document that a rule rests on."""

    @property
    def title(self) -> str: ...
    @property
    def url(self) -> str: ...


class RuleText(Protocol):
    """What of a rule is told."""

    @property
    def id(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def explain(self) -> str: ...
    @property
    def references(self) -> Sequence[Reference]: ...


def explain_instruction(
    instruction: Instruction | str, report: KernelReport | None = None, arch: str | None = None
) -> str:
    """What an instruction does, and what the report says of it.

    Args:
        instruction: it, or the line of assembly that it stands on.
        report: the kernel that it is part of; figures of that very line need an `Instruction`.
        arch: the target where there is no report.

    Returns:
        Lines of plain text; "" where the line holds no instruction.
    """
    inst = _read(instruction) if isinstance(instruction, str) else instruction
    if inst is None:
        return ""
    arch_name = report.arch if report is not None else arch
    machine = (
        machines.load(arch_name)
        if arch_name in machines.names() and arch_name is not None
        else None
    )
    sentence = meaning(inst.op, inst.operands)
    lines = [inst.mnemonic, *([sentence] if sentence else [])]
    lines += _class_lines(inst)
    lines += _cycles(inst, machine)
    if report is not None and inst.line:
        lines += _in_kernel(inst, report)
    return "\n".join(lines)


def explain_finding(
    finding: Finding,
    rules: Mapping[str, RuleText] | None = None,
    unit_of: Callable[[str], str] | None = None,
) -> str:
    """What a finding means: its message, why it matters, what to change, where to read on.

    Args:
        finding: of a kernel's report.
        rules: id -> the rule as written, for the explanation and the references.
        unit_of: the unit of a metric; None: figures stand without.

    Returns:
        Lines of plain text; paragraphs are apart by an empty line.
    """
    rule = (rules or {}).get(finding.rule)
    name = f" {rule.name}" if rule is not None else ""
    severity = "note" if finding.severity == "info" else finding.severity
    parts = [f"{finding.rule}{name}   {severity}, {finding.confidence}", finding.message]
    if rule is not None and rule.explain:
        parts.append("Why it matters\n" + " ".join(rule.explain.split()))
    if finding.fix:
        parts.append("What to change\n" + " ".join(finding.advice.split()))
    if finding.evidence:
        figures = evidence(finding, unit_of)
        width = max(map(len, (name for name, _ in figures)))
        parts.append(
            "Evidence\n" + "\n".join(f"{name:<{width}}  {value}" for name, value in figures)
        )
    places = [text for text in map(_place, finding.locations) if text]
    if places:
        parts.append("Where\n" + "\n".join(places))
    if rule is not None and rule.references:
        parts.append("References\n" + "\n".join(f"{r.title}\n{r.url}" for r in rule.references))
    return "\n\n".join(parts)


def _read(text: str) -> Instruction | None:
    """The instruction on a line of assembly."""
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


_TRAITS = frozenset({"transcendental", "packed", "sparse", "scaled", "dual", "transpose"})


def _cycles(inst: Instruction, machine: Machine | None) -> list[str]:
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


def _in_kernel(inst: Instruction, report: KernelReport) -> list[str]:
    """What the report says of the very line."""
    line = inst.line
    lines: list[str] = []
    loops = {loop.id: loop for loop in report.loops}
    for wait in report.waits:
        if wait.line == line:
            lines += _wait(wait)
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
            at = f" at offset {slot.offset}" if slot.offset is not None else ""
            lines.append(
                f"{action} scratch memory{at}: {slot.size} bytes,"
                f" {plural(len(slot.stores), 'store')} and {plural(len(slot.reloads), 'reload')}"
            )
    for finding in report.findings:
        if any(at.kind == "amdgcn" and at.line == line for at in finding.locations):
            lines.append(f"{finding.rule} ({finding.severity}): {finding.message}")
    return ["", "In this kernel:", *lines] if lines else []


def _wait(wait: WaitOp) -> list[str]:
    verdict = _VERDICTS.get(wait.verdict or "", "")
    lines = [f"{wait.counter} ≤ {wait.n}: {verdict}" if verdict else f"{wait.counter} ≤ {wait.n}"]
    if wait.verdict == "over-strict":
        lines.append(
            f"{wait.counter}({wait.could_be}) would do"
            if wait.could_be is not None
            else f"no wait for {wait.counter} is needed here"
        )
    if wait.waits_for:
        numbers = ", ".join(str(at) for at in wait.waits_for[:6])
        ellipsis = ", …" if len(wait.waits_for) > 6 else ""
        lines.append(f"waits for ISA line {numbers}{ellipsis}")
    if wait.slack is not None:
        count = plural(wait.slack, "instruction")
        cycles = f" and {wait.slack_cycles} matrix cycles" if wait.slack_cycles else ""
        lines.append(f"{count}{cycles} lie between the youngest of these and the wait")
    return lines


def _place(at: Location) -> str:
    if at.kind == "source" and at.file:
        where = f"{at.file}:{at.line}" if at.line else at.file
    else:
        title = {"amdgcn": "ISA", "ttgir": "TTGIR"}.get(at.kind, at.kind)
        where = f"{title} {at.line}" if at.line else ""
    text = at.text.strip()
    return f"{where}   {text}" if text and where else where


def evidence(
    finding: Finding, unit_of: Callable[[str], str] | None = None
) -> list[tuple[str, str]]:
    """The figures that a finding rests on, in words: (name, value with its unit)."""
    figures = []
    for name, value in finding.evidence.items():
        unit = unit_of(name) if unit_of is not None else ""
        unit = "" if unit in _NO_UNITS else unit
        if value == 1 and unit.endswith("s"):
            unit = unit[:-1]
        figures.append((name, f"{figure(value)} {unit}".rstrip()))
    return figures


def figure(value: MetricValue) -> str:
    """A value of the evidence; what is unknown is a dash."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {figure(member)}" for name, member in value.items()) or "none"
    return str(value)
