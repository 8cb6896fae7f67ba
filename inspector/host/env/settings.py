"""What `env set` can change: files of the kernel, and variables of a shell.

A clock limit is two settings in this order, as rocm_smi.cc's rsmi_perf_determinism_mode_set has it:
the performance level, then `s 1 MHZ` and `c` (commit) into pp_od_clk_voltage.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from ...errors import KinspectError
from .facts import Verdict
from .gpus import CLOCK_MHZ, CLOCK_TABLE, PERFORMANCE_LEVEL, clock_limit, clock_name, gpus
from .host import Host
from .knobs import is_on, knobs
from .machine import NUMA_BALANCING
from .system import system_facts

_CARD = "/sys/class/drm/(?:card|renderD)[0-9]+/device"
_LEVELS, _CLOCKS = (f"{_CARD}/{name}" for name in (PERFORMANCE_LEVEL, CLOCK_TABLE))
_VALUE = re.compile("[a-z0-9_]{1,40}")


class Codec(Struct, frozen=True):
    """How a kind of setting is read and written.

    Args:
        read: the file's text -> the value; None where it is not in it.
        writes: a value -> the texts to write, one after the other.
    """

    read: Callable[[str], str | None]
    writes: Callable[[str], tuple[str, ...]]


def _read_clock(text: str) -> str | None:
    limit = clock_limit(text)
    return None if limit is None else str(limit)


CODECS = {
    "plain": Codec(lambda text: text.strip(), lambda value: (value,)),
    "sclk": Codec(_read_clock, lambda value: (f"s 1 {value}", "c")),
}


class Change(Struct, frozen=True):
    """One setting to be changed.

    Args:
        name: what the user calls it.
        kind: a codec's name for files, `variable` for variables of the shell.
        target: path or variable.
        before: None for a variable that is not set.
        after: likewise.
    """

    name: str
    kind: str
    target: str
    before: str | None
    after: str | None

    @property
    def is_variable(self) -> bool:
        return self.kind == "variable"


def is_known(change: Change) -> bool:
    """Whether a change is one that this program makes: to nothing else is anything written.

    A path is one of those of `_offers`, for any GPU; a value is one that such a file can hold.
    """
    if change.is_variable:
        return change.name == change.target and any(k.name == change.target for k in knobs())
    patterns = {"plain": (NUMA_BALANCING, _LEVELS), "sclk": (_CLOCKS,)}[change.kind]
    at_known = any(re.fullmatch(pattern, change.target) for pattern in patterns)
    values = (change.before, change.after)
    return at_known and all(v is not None and _VALUE.fullmatch(v) for v in values)


def current(host: Host, change: Change) -> str | None:
    """What a setting is now; None where a variable is not set or a file is not there."""
    if change.is_variable:
        return host.environ.get(change.target)
    text = host.text(change.target)
    return None if text is None else CODECS[change.kind].read(text)


def put(host: Host, kind: str, target: str, value: str) -> None:
    """Writes a file's setting.

    Raises:
        OSError: the user may not, or the kernel refuses it.
    """
    for text in CODECS[kind].writes(value):
        host.write(target, text)


def command(change: Change, value: str | None) -> str:
    """What a user would type for it: a line for the shell, as root for files."""
    if change.is_variable:
        if value is None:
            return f"unset {change.target}"
        return f"export {change.target}={shlex.quote(value)}"
    writes = CODECS[change.kind].writes(value or "")
    steps = " && ".join(f"echo {shlex.quote(text)} > {change.target}" for text in writes)
    return f"sudo sh -c {shlex.quote(steps)}"


def plan(host: Host, names: Sequence[str] = ()) -> list[Change]:
    """What is to be changed on a machine.

    Args:
        host: the machine.
        names: settings; none for all that are worth changing.

    Raises:
        KinspectError: a name is unknown, or not to be set here.
    """
    offered = {change.name: [] for change in _offers(host)}  # type: dict[str, list[Change]]
    for change in _offers(host):
        offered[change.name].append(change)
    if names:
        for name in names:
            if name not in offered:
                raise _unknown(name, offered)
        planned = [c for name in dict.fromkeys(names) for c in offered[name]]
    else:
        planned = [c for name in _worth_changing(host) for c in offered.get(name, ())]
    return [change for change in planned if change.before != change.after]


def _worth_changing(host: Host) -> Iterator[str]:
    amd_gpus = gpus(host)
    for fact in system_facts(host, amd_gpus):
        if fact.settable and fact.verdict is Verdict.CHANGE:
            yield fact.name
    for knob in knobs():
        value = host.environ.get(knob.name)
        is_to_be_set = knob.kind == "want" and value != knob.value and bool(amd_gpus)
        if is_to_be_set or (knob.kind == "off" and is_on(value)):
            yield knob.name


def _offers(host: Host) -> Iterator[Change]:
    """Every change that can be asked for by name here."""
    if (value := host.text(NUMA_BALANCING)) is not None:
        yield Change("numa_balancing", "plain", NUMA_BALANCING, value, "0")
    for gpu in gpus(host):
        level = host.text(f"{gpu.card}/{PERFORMANCE_LEVEL}") if gpu.card else None
        limit = _read_clock(host.text(f"{gpu.card}/{CLOCK_TABLE}") or "") if gpu.card else None
        if level is not None and limit is not None:
            name = clock_name(gpu)
            yield Change(
                name, "plain", f"{gpu.card}/{PERFORMANCE_LEVEL}", level, "perf_determinism"
            )
            yield Change(name, "sclk", f"{gpu.card}/{CLOCK_TABLE}", limit, str(CLOCK_MHZ))
    for knob in knobs():
        previous = host.environ.get(knob.name)
        if knob.kind in ("want", "choice"):
            yield Change(knob.name, "variable", knob.name, previous, knob.value)
        elif knob.kind == "off":
            yield Change(knob.name, "variable", knob.name, previous, None)


def _unknown(name: str, offered: dict[str, list[Change]]) -> KinspectError:
    import difflib

    if name == "numa_balancing" or name.startswith("clock"):
        return KinspectError(
            f"{name}: cannot be set here: the kernel does not show it",
            "see `kinspect env check`",
        )
    near = difflib.get_close_matches(name, offered, 3, 0.5)
    hint = f"did you mean {', '.join(near)}?" if near else "see `kinspect env check`"
    return KinspectError(f"{name}: no setting of that name", hint)
