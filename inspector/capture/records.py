"""Turns the guest's records of a capture (`guest/records.py`) into variants, errors and notes."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from msgspec import Struct, convert, to_builtins
from msgspec.structs import replace

from ..base import limits
from ..base.printable import printable
from ..model import (
    Assumption,
    EmulatedValue,
    ErrorRecord,
    Parameter,
    Passed,
    PassedMemory,
    SourceLoc,
    Variant,
)
from .labels import labelled
from .options import CapturePlan

_RUN_ALONE = "run it by itself to see why"
_SUBJECTS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        # mode, or "frontend": (what the child did, hint)
        "cases": (
            "loading the file",
            'put what should run only as a script under `if __name__ == "__main__":`',
        ),
        "script": ("the script", _RUN_ALONE),
        "inductor": ("reading the file", _RUN_ALONE),
        "trace": ("reading the file", _RUN_ALONE),
        "frontend": (
            "the front end",
            "leave it out with --kernel, or try another Triton (--python)",
        ),
    }
)


_OF_RUNS = frozenset(("assumptions", "emulated", "passed"))
"""What a variant has of code that was run: none of a stranger's is."""


class _Launches(Struct, frozen=True):
    """How often a variant was launched, and with which grids how often.

    `largest`: the launch that does most, as fields of a variant's record; None: the recorded one.
    """

    count: int | None
    grids: tuple[tuple[tuple[int, ...], int], ...]
    largest: dict[str, Any] | None = None


class CapturedVariant(Struct, frozen=True):
    """One specialisation, as soon as it is captured. `CaptureEnd` has its label and launches."""

    variant: Variant


class CaptureEnd(Struct, frozen=True):
    """The end of a capture: its variants in the order in which they came, errors and notes.

    `launchers` are files that launch the kernels of one that launched nothing.
    """

    variants: tuple[Variant, ...]
    errors: tuple[ErrorRecord, ...]
    notes: tuple[str, ...]
    launchers: tuple[str, ...] = ()


class CaptureOutcome:
    """The records of one capture, collected.

    `output`: what the user's code printed.
    """

    def __init__(self, plan: CapturePlan) -> None:
        self.output = ""
        self._plan = plan
        self._is_foreign = is_foreign(plan)
        self._variants: list[Variant] = []
        self._keys: list[str | None] = []
        self._failures: dict[Refusal, list[str]] = {}
        self._notes: dict[str, None] = {}
        self._launches: dict[tuple[str, str], _Launches] = {}

    def add(self, record: Mapping[str, Any]) -> Variant | None:
        """Takes one of the guest's records; returns the variant, if it is one."""
        try:
            return self._add(record)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as failure:
            if not self._is_foreign:
                raise
            text = f"a kernel's description is damaged: {failure}"
            refusal = Refusal(None, None, "capture", str(self._plan.path), text, _RUN_ALONE)
            self._failures.setdefault(refusal, [])
            return None

    def _add(self, record: Mapping[str, Any]) -> Variant | None:
        if "variant" in record:
            fields = record["variant"]
            if self._is_foreign:
                fields = {key: fields[key] for key in fields.keys() - _OF_RUNS}
            variant = variant_of_record(fields, self._plan.triton_version)
            key = fields.get("key")
            if self._is_foreign:
                variant, key = self._held_to_types(variant), convert(key, str | None)
            self._variants.append(variant)
            self._keys.append(key)
            return variant
        if "note" in record:
            self._notes[convert(record["note"], str)] = None
        elif "launches" in record:
            arch = convert(record.get("arch") or "", str)
            for key, facts in convert(record["launches"], dict[str, _Launches]).items():
                self._launches[arch, key] = (
                    replace(facts, largest=None) if self._is_foreign else facts
                )
        else:
            self._add_failure(record)
        return None

    def _held_to_types(self, variant: Variant) -> Variant:
        """The same, of a process that lowered a stranger's kernels, which may write anything."""
        if variant.arch not in self._plan.archs or variant.stage != "ttir":
            raise ValueError(f"{variant.stage} for {variant.arch}")
        return convert(to_builtins(variant), Variant)

    def _add_failure(self, record: Mapping[str, Any]) -> None:
        if "error" in record:
            failure, arch = refusal_of(record["error"]), record["error"]["arch"]
        else:
            plan = self._plan
            failure = lost_child(plan.path, record, plan.mode, plan.options.time_limit)
            arch = record.get("arch")
        if self._is_foreign:
            failure, arch = convert(to_builtins(failure), Refusal), convert(arch, str | None)
        self._failures.setdefault(failure, []).extend([arch] if arch is not None else [])

    def _output_for(self, failure: Refusal) -> str:
        """What of the output may explain a failure: the last line of code that came to its end."""
        if failure.stage != "capture":
            return ""
        return self.output.strip().rpartition("\n")[2] if failure.ran_well else self.output

    def end(self) -> CaptureEnd:
        """All variants with their launches and labels, the errors and the notes."""
        path = self._plan.path
        variants = [
            _with_launches(variant, self._launches.get((variant.arch, key or "")))
            for variant, key in zip(self._variants, self._keys, strict=True)
        ]
        errors = [
            failure.as_record(path, archs, self._output_for(failure))
            for failure, archs in merge_cases(self._failures).items()
        ]
        error, note = _on_assumptions(self._plan, variants)
        errors += [error] if error is not None else []
        notes = dict(self._notes)
        notes.update({note: None} if note is not None else {})
        launchers = tuple(file for failure in self._failures for file in failure.launchers)
        return CaptureEnd(tuple(labelled(variants)), tuple(errors), tuple(notes), launchers)


def is_foreign(plan: CapturePlan) -> bool:
    """Whether a capture is of a stranger's kernels, whose file runs nothing."""
    return plan.mode in ("trace", "inductor") and not plan.options.trust_trace


def variant_of_record(fields: Mapping[str, Any], triton_version: str | None) -> Variant:
    """The variant that a record describes."""
    return Variant(
        kernel=fields["kernel"],
        arch=fields["arch"],
        wave_size=fields["wave_size"],
        ttir=fields["ttir"],
        stage=fields.get("stage", "ttir"),
        options=fields["options"],
        signature=fields["signature"],
        constexprs=fields["constexprs"],
        attrs=fields["attrs"],
        source=SourceLoc(fields["file"], fields["line"]) if fields.get("file") else None,
        qualname=fields["qualname"],
        case=fields["case"],
        triton_version=triton_version,
        tuning=fields.get("tuning"),
        launches=fields.get("launches"),
        notes=tuple(fields.get("notes") or ()),
        assumptions=tuple(map(_assumption, fields.get("assumptions") or ())),
        emulated=tuple(map(_emulated, fields.get("emulated") or ())),
        unspecialised=fields.get("unspecialised"),
        generator=fields.get("generator"),
        **_launch_of(fields),
    )


def _launch_of(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a variant that are of the recorded launch."""
    grid, site = fields.get("grid"), fields.get("call_site")
    return {
        "grid": tuple(grid) if grid is not None else None,
        "call_site": SourceLoc(site["file"], site["line"]) if site else None,
        "values": fields.get("values"),
        "passed": _passed(fields.get("passed")),
    }


def _passed(fields: Mapping[str, Any] | None) -> Passed | None:
    if fields is None:
        return None
    return Passed(
        tuple(Parameter(kind, value) for kind, value in fields["parameters"]),
        tuple(
            PassedMemory(m["address"], m["size"], m["dtype"], _inflated(m["contents"], m["size"]))
            for m in fields["memories"]
        ),
    )


def _inflated(contents: str | None, size: int) -> bytes | None:
    """Inflates base64 text from the guest; None unless it has exactly `size` bytes."""
    if contents is None:
        return None
    inflated = zlib.decompressobj().decompress(base64.b64decode(contents), size)
    return inflated if len(inflated) == size else None


def _assumption(fields: Mapping[str, Any]) -> Assumption:
    file, line = fields.get("file"), fields.get("line")
    source = SourceLoc(file, line) if file and line else None
    explored = bool(fields.get("explored"))
    return Assumption(
        str(fields["what"]),
        str(fields["assumed"]),
        source,
        explored=explored,
        reason=fields.get("reason"),
    )


def _emulated(fields: Mapping[str, Any]) -> EmulatedValue:
    source = SourceLoc(fields["file"], fields["line"])
    return EmulatedValue(str(fields["what"]), str(fields["value"]), source)


class Refusal(Struct, frozen=True):
    """A failure without its target, so that failures for several targets compare equal.

    `kernel`: name of the kernel; None where the file failed.
    `place`: the file, or `file:line`; None where `text` names it.
    """

    kernel: str | None
    case: str | None
    stage: str
    place: str | None
    text: str
    hint: str
    ran_well: bool = False
    launchers: tuple[str, ...] = ()

    def as_record(self, path: Path, archs: Sequence[str], output: str = "") -> ErrorRecord:
        """The error record of a report.

        `archs`: gfx names of the targets that failed; empty for all.
        """
        message = self.text
        if self.place is not None:
            context = f"case {self.case!r} " if self.case else ""
            context = f"{context}for {', '.join(archs)}: " if archs else ""
            message = f"{self.place}: {context}{self.text}"
        label = f"{self.kernel}[{self.case}]" if self.kernel and self.case else self.kernel
        texts = (printable(text) for text in (message, self.hint, output))
        return ErrorRecord(str(path), label, self.stage, *texts)


def merge_cases(failures: Mapping[Refusal, Sequence[str]]) -> dict[Refusal, list[str]]:
    """Merges failures of the front end that differ only in the case, such as autotune configs.

    `failures`: refusal -> gfx names of the targets that failed; empty for all.
    """
    groups: dict[Refusal, list[Refusal]] = {}
    for failure in failures:
        key = replace(failure, case=None) if failure.stage == "frontend" else failure
        groups.setdefault(key, []).append(failure)
    merged: dict[Refusal, list[str]] = {}
    for group in groups.values():
        first, count = group[0], len(group)
        if count > 1:
            first = replace(first, case=None, text=f"{count} of its specialisations: {first.text}")
        merged[first] = list(dict.fromkeys(arch for member in group for arch in failures[member]))
    return merged


def refusal_of(error: Mapping[str, Any]) -> Refusal:
    """The refusal of the guest's record of an error (`guest/records.py`)."""
    return Refusal(
        kernel=error["kernel"],
        case=error["case"],
        stage=error["stage"],
        place=error["place"],
        text=error["message"],
        hint=error["hint"],
        ran_well=error["ran_well"],
        launchers=tuple(error.get("launchers", ())),
    )


def lost_child(path: Path, record: Mapping[str, Any], mode: str, time_limit: float) -> Refusal:
    """The refusal for a child of the guest that ended without a result.

    `record`: the guest's record; it has the key "kernel" if the child was in the front end and not
    in the user's code.
    """
    in_kernel = "kernel" in record
    end, is_timeout = _child_end(record["lost"])
    subject, hint = _SUBJECTS["frontend" if in_kernel else mode]
    if is_timeout:
        # One kernel of a stranger has less than the whole limit.
        is_foreign = mode in ("trace", "inductor")
        is_whole = not is_foreign or record["lost"]["seconds"] >= time_limit
        more = (
            "raise --capture-limit (or a lower --time-limit)"
            if is_whole
            else f"set {limits.SECONDS_VARIABLE} to more"
        )
        hint = f"{hint}; or {more}"
    last_line = [line.strip() for line in record["output"].splitlines() if line.strip()][-1:]
    last_words = f'; the last thing it printed is "{last_line[0]}"' if last_line else ""
    stage = "frontend" if in_kernel else "capture"
    text = f"{subject} {end}{last_words}"
    return Refusal(record.get("kernel"), record.get("case"), stage, str(path), text, hint)


def _child_end(child_outcome: Mapping[str, Any]) -> tuple[str, bool]:
    """How a child ended, and whether that was at the time limit."""
    if child_outcome["reason"] == "timeout":
        return f"did not finish within {child_outcome['seconds']:.0f} s", True
    if child_outcome["reason"] == "signal":
        return f"crashed ({child_outcome['signal'] or child_outcome['code']})", False
    return f"ended the interpreter (status {child_outcome['code']})", False


def _on_assumptions(
    plan: CapturePlan, variants: Sequence[Variant]
) -> tuple[ErrorRecord | None, str | None]:
    assumed = [variant for variant in variants if variant.assumptions]
    if not assumed:
        return None, None
    first = assumed[0].assumptions[0]
    location = f" ({Path(first.source.file).name}:{first.source.line})" if first.source else ""
    message = (
        f"{len(assumed)} of {len(variants)} specialisations rest on what is not known without a"
        f" GPU, the first on {first.what}: taken for {first.assumed}{location}"
    )
    if not plan.options.strict:
        return None, f"{plan.path}: {message}"
    hint = "have the script not ask for it, or leave --strict out"
    return ErrorRecord(str(plan.path), None, "capture", message, hint), None


def _with_launches(variant: Variant, facts: _Launches | None) -> Variant:
    if facts is None:
        return variant
    if facts.largest is not None:
        variant = replace(variant, **_launch_of(facts.largest))
    notes = variant.notes
    if len(facts.grids) > 1:
        grids = ", ".join(_extents(grid) for grid, _ in facts.grids)
        largest = f"; the largest counts: {_extents(variant.grid)}" if variant.grid else ""
        notes = (*notes, f"launched with {len(facts.grids)} grids: {grids}{largest}")
    return replace(variant, launches=facts.count, notes=notes)


def _extents(grid: Sequence[int]) -> str:
    return "x".join(map(str, grid))
