"""What an id of the agent format names: which kernel of a run, and which part of it.

The ids by which a report for agents names what it lists, and `kinspect show` opens it again.

A finding's is the beginning of its fingerprint, a kernel's that of a digest of its own id: neither
changes when lines move. Of a kernel's parts a loop is `KERNEL.L0`, a memory access `KERNEL.M41`,
the number being its line in the assembly.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from msgspec import Struct

from ..base.errors import KinspectError
from ..model import Finding, KernelReport, LoopReport, MemoryOp


class KernelKeys(Protocol):
    """The whole keys that ids of a kernel begin."""

    @property
    def key(self) -> str:
        """As `ids.kernel_key` has it."""

    @property
    def findings(self) -> tuple[str, ...]:
        """The fingerprints of its findings."""


class ReportedKeys(Struct, frozen=True):
    """The keys of a kernel that is at hand."""

    key: str
    findings: tuple[str, ...]


class NamedKey(Struct, frozen=True):
    """A kernel of a run that an id names, or in which it names findings.

    Args:
        fingerprint: of the findings; None where the kernel or a part of its code is named.
    """

    position: int
    fingerprint: str | None


class NamedItem(Struct, frozen=True):
    """What an id names, and its kernel.

    Args:
        kernel_id: its shortened key.
        findings: those with the fingerprint that it names; empty where it names something else.
    """

    id: str
    kernel: KernelReport
    kernel_id: str
    findings: tuple[Finding, ...] = ()
    loop: LoopReport | None = None
    access: MemoryOp | None = None

    @property
    def is_kernel(self) -> bool:
        """Whether it names the kernel as a whole."""
        return not self.findings and self.loop is None and self.access is None


def keys_of(kernel: KernelReport) -> ReportedKeys:
    """The keys that ids of a kernel begin."""
    fingerprints = tuple(dict.fromkeys(f.fingerprint for f in kernel.facts))
    return ReportedKeys(kernel_key(kernel.id), fingerprints)


def located(text: str, item: ItemId, kernels: Sequence[KernelKeys]) -> NamedKey | None:
    """Which kernel of a run an id is about; None where it is about none.

    Raises:
        KinspectError: it is the beginning of several ids.
    """
    has_part = item.loop is not None or item.line is not None
    named: dict[str, NamedKey] = {}
    for position, kernel in enumerate(kernels):
        if kernel.key.startswith(item.key):
            named.setdefault(kernel.key, NamedKey(position, None))
        for fingerprint in () if has_part else kernel.findings:
            if fingerprint.startswith(item.key):
                named.setdefault(fingerprint, NamedKey(position, fingerprint))
    if len(named) > 1:
        raise KinspectError(
            f"{text} is the beginning of several ids", f"name one: {', '.join(named)}"
        )
    return next(iter(named.values()), None)


def _command(kernel_id: str) -> str:
    return f"kinspect show {shlex.quote(kernel_id)}"


def item_of(
    text: str,
    item: ItemId,
    fingerprint: str | None,
    kernel: KernelReport,
    opens: Callable[[str], str] = _command,
) -> NamedItem:
    """The part of a kernel that an id names; `opens` spells what opens an id, for hints.

    Raises:
        KinspectError: it is not there.
    """
    kernel_id = kernel_key(kernel.id)[: max(len(item.key), SHORTEST)]
    if fingerprint is not None:
        findings = tuple(f for f in kernel.facts if f.fingerprint == fingerprint)
        if not findings:
            raise KinspectError(
                f"{text}: that finding is no longer there",
                f"`{opens(kernel_id)}` shows what {kernel.name} is now",
            )
        return NamedItem(text, kernel, kernel_id, findings=findings)
    if item.loop is not None:
        loop = next((loop for loop in kernel.loops if loop.id == item.loop), None)
        if loop is None:
            raise _no_part(text, kernel, f"loop {item.loop}", opens(kernel_id))
        return NamedItem(text, kernel, kernel_id, loop=loop)
    if item.line is not None:
        access = next((op for op in kernel.memory_ops if op.line == item.line), None)
        if access is None:
            raise _no_part(text, kernel, f"memory access in line {item.line}", opens(kernel_id))
        return NamedItem(text, kernel, kernel_id, access=access)
    return NamedItem(text, kernel, kernel_id)


def _no_part(text: str, kernel: KernelReport, part: str, opening: str) -> KinspectError:
    return KinspectError(f"{text}: {kernel.name} has no {part}", f"`{opening}` shows what it has")


SHORTEST = 6
_DIGITS = 16
"""Hexadecimal digits of a whole key, as of a fingerprint."""
_ID = re.compile(rf"([0-9a-f]{{{SHORTEST},{_DIGITS}}})(?:\.(L\d+)|\.M(\d+))?")


class ItemId(Struct, frozen=True):
    """An id in its parts.

    Args:
        key: the beginning of a fingerprint or of a kernel's key.
        line: of the assembly, from 1, of an access; None where it names none.
    """

    key: str
    loop: str | None = None
    line: int | None = None


def parsed(text: str) -> ItemId | None:
    """The parts of an id; None if the text does not have the form of one."""
    match = _ID.fullmatch(text)
    if match is None:
        return None
    return ItemId(match[1], match[2], int(match[3]) if match[3] else None)


def kernel_key(kernel: str) -> str:
    """The whole key of a kernel, from its id in reports."""
    import hashlib  # loads OpenSSL

    return hashlib.sha256(kernel.encode("utf-8", "backslashreplace")).hexdigest()[:_DIGITS]


def shortened(keys: Iterable[str]) -> dict[str, str]:
    """Key -> its shortest beginning that no other of them has; all of the same length."""
    distinct = sorted(set(keys))
    length = SHORTEST
    while len({key[:length] for key in distinct}) < len(distinct):
        length += 1
    return {key: key[:length] for key in distinct}


def loop_id(kernel: str, loop: str) -> str:
    """The id of a loop, from its kernel's shortened key and its own name there."""
    return f"{kernel}.{loop}"


def access_id(kernel: str, line: int) -> str:
    """The id of a memory access, from its kernel's shortened key and its line of the assembly."""
    return f"{kernel}.M{line}"
