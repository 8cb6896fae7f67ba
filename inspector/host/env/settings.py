"""The settings that `env set` can change: files of the kernel, and variables of a shell.

A clock limit is two settings in this order, as rocm_smi.cc's rsmi_perf_determinism_mode_set has it:
the performance level, then `s 1 MHZ` and `c` (commit) into pp_od_clk_voltage.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Iterator, Sequence

from msgspec import Struct

from ...base.errors import KinspectError
from .gpus import CLOCK_MHZ, CLOCK_TABLE, PERFORMANCE_LEVEL, clock_limit, clock_name, gpus
from .host import Host, Verdict
from .knobs import is_on, knobs
from .machine_facts import NUMA_BALANCING, system_facts

_CARD = "/sys/class/drm/(?:card|renderD)[0-9]+/device"
_LEVELS, _CLOCKS = (f"{_CARD}/{name}" for name in (PERFORMANCE_LEVEL, CLOCK_TABLE))
_VALUE = re.compile("[a-z0-9_]{1,40}")


class Codec(Struct, frozen=True):
    """The way to read and write a kind of file.

    Args:
        read: the file's text -> the value; None if the text does not hold it.
    """

    read: Callable[[str], str | None]
    writes: Callable[[str], tuple[str, ...]]  # a value -> the texts to write, one after the other


def _read_clock(text: str) -> str | None:
    limit = clock_limit(text)
    return None if limit is None else str(limit)


CODECS = {
    "plain": Codec(lambda text: text.strip(), lambda value: (value,)),
    "sclk": Codec(_read_clock, lambda value: (f"s 1 {value}", "c")),
}
"""Kind of a file -> how it is read and written: `plain` holds the value alone, `sclk` a table."""


class SettingChange(Struct, frozen=True):
    """A new value for a file of the kernel or a variable of the shell."""

    name: str  # of the setting, as the user types it; some settings change several files
    kind: str  # a key of `CODECS` for files, `variable` for variables
    target: str  # the file's path, or the variable
    before: str | None  # the present value; None for a variable that is not set
    after: str | None  # the new value; None to unset a variable

    @property
    def is_variable(self) -> bool:
        return self.kind == "variable"


def is_known(change: SettingChange) -> bool:
    """Tells whether a change is one that kinspect makes: it writes to nothing else.

    Its path has to be one that `_possible_changes` names, for any GPU, and its values such as those
    files can hold.
    """
    if change.is_variable:
        return change.name == change.target and any(k.name == change.target for k in knobs())
    patterns = {"plain": (NUMA_BALANCING, _LEVELS), "sclk": (_CLOCKS,)}[change.kind]
    is_known_file = any(re.fullmatch(pattern, change.target) for pattern in patterns)
    values = (change.before, change.after)
    return is_known_file and all(v is not None and _VALUE.fullmatch(v) for v in values)


def current(host: Host, change: SettingChange) -> str | None:
    """Returns the present value; None if a variable is not set or a file is missing."""
    if change.is_variable:
        return host.environ.get(change.target)
    text = host.text(change.target)
    return None if text is None else CODECS[change.kind].read(text)


def write(host: Host, kind: str, target: str, value: str) -> None:
    """Writes a value to a file, whose kind is a key of `CODECS`.

    Raises:
        OSError: the user may not, or the kernel refuses the value.
    """
    for text in CODECS[kind].writes(value):
        host.write(target, text)


def command(change: SettingChange, value: str | None) -> str:
    """The line of a shell that sets a change's target to a value; with sudo for files."""
    if change.is_variable:
        if value is None:
            return f"unset {change.target}"
        return f"export {change.target}={shlex.quote(value)}"
    writes = CODECS[change.kind].writes(value or "")
    steps = " && ".join(f"echo {shlex.quote(text)} > {change.target}" for text in writes)
    return f"sudo sh -c {shlex.quote(steps)}"


def plan(host: Host, names: Sequence[str] = ()) -> list[SettingChange]:
    """The changes to make on a machine, those that change nothing left out.

    `names`: of settings; none for all that are worth changing.

    Raises:
        KinspectError: a name is unknown, or cannot be set here.
    """
    possible: dict[str, list[SettingChange]] = {}
    for change in _possible_changes(host):
        possible.setdefault(change.name, []).append(change)
    for name in names:
        if name not in possible:
            raise _unknown(name, possible)
    chosen = dict.fromkeys(names or _worth_changing(host))
    changes = [change for name in chosen for change in possible.get(name, ())]
    return [change for change in changes if change.before != change.after]


def _worth_changing(host: Host) -> Iterator[str]:
    """The names of the settings that the guides would change here."""
    amd_gpus = gpus(host)
    for fact in system_facts(host, amd_gpus):
        if fact.settable and fact.verdict is Verdict.CHANGE:
            yield fact.name
    for knob in knobs():
        value = host.environ.get(knob.name)
        should_be_set = knob.kind == "want" and value != knob.value and bool(amd_gpus)
        should_be_off = knob.kind == "off" and is_on(value)
        if should_be_set or should_be_off:
            yield knob.name


def _possible_changes(host: Host) -> Iterator[SettingChange]:
    """Every change that can be made on this machine, whether it is worth it or not."""
    if (value := host.text(NUMA_BALANCING)) is not None:
        yield SettingChange("numa_balancing", "plain", NUMA_BALANCING, value, "0")
    for gpu in gpus(host):
        level = host.text(f"{gpu.card}/{PERFORMANCE_LEVEL}") if gpu.card else None
        limit = _read_clock(host.text(f"{gpu.card}/{CLOCK_TABLE}") or "") if gpu.card else None
        if level is not None and limit is not None:
            name = clock_name(gpu)
            yield SettingChange(
                name, "plain", f"{gpu.card}/{PERFORMANCE_LEVEL}", level, "perf_determinism"
            )
            yield SettingChange(name, "sclk", f"{gpu.card}/{CLOCK_TABLE}", limit, str(CLOCK_MHZ))
    for knob in knobs():
        previous = host.environ.get(knob.name)
        if knob.kind in ("want", "choice"):
            yield SettingChange(knob.name, "variable", knob.name, previous, knob.value)
        elif knob.kind == "off":
            yield SettingChange(knob.name, "variable", knob.name, previous, None)


def _unknown(name: str, possible: Collection[str]) -> KinspectError:
    import difflib

    if name == "numa_balancing" or name.startswith("clock"):
        return KinspectError(
            f"{name}: cannot be set here: the kernel does not show it", "see `kinspect env check`"
        )
    near = difflib.get_close_matches(name, possible, 3, 0.5)
    hint = f"did you mean {', '.join(near)}?" if near else "see `kinspect env check`"
    return KinspectError(f"{name}: no setting of that name", hint)
