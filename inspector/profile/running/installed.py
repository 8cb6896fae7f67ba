"""What profiling needs of this machine: a profiler, the decoder of its traces, the GPU's arch.

The profiler is that of the program's own ROCm, if it has one.

The options of rocprofv3's versions, and the capabilities of PC sampling; from YAML.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct

from ...base.documents import own_yaml
from ...base.errors import KinspectError
from ...base.lifetimes import run_to_end
from ...base.named_files import file_text, opened
from ...base.programs import find_program

OWN_FAILURE = 125
"""The exit status of failures that are kinspect's or the profiler's, not the program's."""

TOOLS: tuple[str, ...] = ("rocprofv3", "rocprofv2", "rocprof", "rocprof-compute")
_FALLBACKS: tuple[str, ...] = ("rocprofv3", "rocprofv2", "rocprof")
_PACKAGES: Mapping[str, str] = {
    "rocprofv2": "rocprofiler",
    "rocprof": "rocprofiler",
    "rocprof-compute": "rocprofiler-compute",
}
_OPT = Path("/opt")
_MOST_TEXT = 1_000_000  # bytes; a rocprofv3 is a Python script of a tenth of it
_DECODER = "librocprof-trace-decoder.so"
_VERSION_WAIT = 20.0  # seconds


class Profiler(Struct, frozen=True):
    """A profiler that was found."""

    tool: str  # one of TOOLS
    path: Path
    version: Version | None  # of the SDK for rocprofv3, its own for the others
    options: frozenset[str] | None = None  # read off its own text; None: go by the version

    @property
    def root(self) -> Path:
        """The ROCm folder that it belongs to."""
        return self.path.resolve().parent.parent

    def has(self, option: str) -> bool:
        """Tells whether the profiler has an option; an unknown version is taken for a new one."""
        if self.options is not None:
            return option in self.options
        return self.version is None or since(option) <= self.version

    def describe(self) -> str:
        """Name, version and place, for messages."""
        return f"{self.tool} {show(self.version)} ({self.path})"


def find_profiler(
    command: Sequence[str],
    tool: str | None = None,
    named: Path | None = None,
    environment: Mapping[str, str] | None = None,
    opt: Path = _OPT,
) -> Profiler:
    """The profiler to run a command under.

    `command`: the program to be profiled; its interpreter's environment is searched first.
    `tool`: one of TOOLS; None for rocprofv3, or what came before it where only that exists.
    `environment`: environment variables; this process's if None.
    `opt`: the folder below which rocm and rocm-* are looked for.

    Raises:
        KinspectError: there is none; it names where it looked.
    """
    env = os.environ if environment is None else environment
    if named is not None:
        return _named(named, tool, env)
    folders = list(dict.fromkeys(_folders(command, env, opt)))
    for name in (tool,) if tool else _FALLBACKS:
        for folder in folders:
            path = folder / name
            if path.is_file() and os.access(path, os.X_OK):
                return describe(path, name, env)
    places = ", ".join(map(str, folders)) or "nowhere: PATH is empty"
    raise KinspectError(
        f"no {tool or 'rocprofv3'} found; looked in {places}",
        f"install ROCm's {_PACKAGES.get(tool or '', 'rocprofiler-sdk')} (with apt or dnf, or pip's "
        "rocm[devel]), or give --rocprof PATH",
        exit_code=OWN_FAILURE,
    )


def describe(path: Path, tool: str, environment: Mapping[str, str] | None = None) -> Profiler:
    """The profiler at a path, with its version, and its options where its text is readable."""
    text = _text(path)
    version = _own_version(text)
    if version is None and tool == "rocprofv3":
        version = _info_version(path) or _reported_version(path, environment)
    elif version is None:
        version = _reported_version(path, environment)
    options = None
    if tool == "rocprofv3" and "add_argument" in text:
        options = frozenset(option for option in used_options() if f'"{option}"' in text)
    return Profiler(tool, path, version, options)


def _named(named: Path, tool: str | None, env: Mapping[str, str]) -> Profiler:
    where = find_program(str(named), env.get("PATH")) or find_program(str(named))
    if where is None:
        raise KinspectError(
            f"{named}: no program that can be run", "give --rocprof the profiler's own path"
        )
    path = Path(where)
    stem = path.name.removesuffix(".py")
    fitting = [name for name in sorted(TOOLS, key=len, reverse=True) if name in stem]
    return describe(path, tool or (fitting[0] if fitting else "rocprofv3"), env)


def _folders(command: Sequence[str], env: Mapping[str, str], opt: Path) -> Iterator[Path]:
    """Yields the folders to look in: of the program's environment, PATH, ROCM_PATH, then /opt."""
    search = env.get("PATH", os.defpath)
    program = find_program(command[0], search) if command else None
    prefixes = [Path(program).absolute().parent.parent] if program else []
    prefixes += [Path(env[name]) for name in ("VIRTUAL_ENV", "CONDA_PREFIX") if env.get(name)]
    for prefix in prefixes:
        # A virtual environment's bin holds a link to the interpreter: the link's place counts.
        if (prefix / "pyvenv.cfg").is_file() or (prefix / "conda-meta").is_dir():
            yield prefix / "bin"
        yield from sorted(prefix.glob("lib/python3*/site-packages/_rocm_sdk_*/bin"))
    for folder in search.split(os.pathsep):
        if os.path.isabs(folder):
            yield Path(folder)
    for name in ("ROCM_PATH", "ROCM_HOME"):
        if env.get(name):
            yield Path(env[name]) / "bin"
    yield opt / "rocm" / "bin"
    releases = sorted(opt.glob("rocm-*"), key=lambda p: parse(p.name) or (), reverse=True)
    for release in releases:
        yield release / "bin"


def _text(path: Path) -> str:
    try:
        with opened(path) as stream:
            head = stream.read(_MOST_TEXT)
    except OSError:
        return ""
    return head.decode("utf-8", "replace") if head.startswith(b"#!") else ""


def _own_version(text: str) -> Version | None:
    match = re.search(r"[\"']version[\"']\s*:\s*[\"']v?(\d+(?:\.\d+)+)", text)
    return parse(match[1]) if match else None


def _info_version(path: Path) -> Version | None:
    """Reads the SDK's version from `.info/version` in the profiler's ROCm folder."""
    try:
        text = file_text(path.resolve().parent.parent / ".info" / "version", 4096)
    except (OSError, UnicodeDecodeError):
        return None
    rocm = parse(text)
    return sdk_of_rocm(rocm) if rocm else None


def _reported_version(path: Path, env: Mapping[str, str] | None) -> Version | None:
    """Runs `--version`; returns None if there is no such option, it hangs or cannot run."""
    try:
        process = run_to_end([str(path), "--version"], _VERSION_WAIT, environment=env)
    except (OSError, subprocess.TimeoutExpired):
        return None
    if process.returncode:
        return None
    return parse(process.stdout.decode("utf-8", "replace"))


def find_decoder(
    profiler: Profiler, folder: Path | None = None, environment: Mapping[str, str] | None = None
) -> Path:
    """Finds the folder with the library that decodes thread traces.

    The search is rocprofv3's: --att-library-path, $ROCPROF_ATT_LIBRARY_PATH, else LD_LIBRARY_PATH
    and the profiler's own lib folder. rocprofv3 is always passed the result: some versions split
    the variable letter by letter and search all disks.

    Raises:
        KinspectError: it is in none of them.
    """
    env = os.environ if environment is None else environment
    stated = str(folder) if folder else env.get("ROCPROF_ATT_LIBRARY_PATH", "")
    libraries = env.get("LD_LIBRARY_PATH", "") + os.pathsep + str(profiler.root / "lib")
    candidates = [Path(p) for p in (stated or libraries).split(os.pathsep) if p]
    for candidate in candidates:
        if candidate.is_file() and candidate.name.startswith(_DECODER):
            return candidate.parent
        for root, _, names in os.walk(candidate):
            if any(name.startswith(_DECODER) for name in names):
                return Path(root)
    raise KinspectError(
        f"thread traces need {_DECODER}, which is in none of {', '.join(map(str, candidates))}",
        "install the ROCprof Trace Decoder and give its folder to --att-library-path",
        exit_code=OWN_FAILURE,
    )


def gpu_arch(
    profiler: Profiler | None = None, topology: Path = Path("/sys/class/kfd/kfd/topology/nodes")
) -> str | None:
    """Finds the arch of this machine's GPUs, by the driver's topology, else by ROCm's own tools.

    `profiler`: the tools in its ROCm folder are run if the driver names no target.

    Returns:
        The gfx name; None if no GPU is visible.

    Raises:
        KinspectError: there are several kinds.
    """
    archs = dict.fromkeys(_archs_by_driver(topology))
    if not archs and profiler is not None:
        archs = dict.fromkeys(_archs_by_tool(profiler.root / "bin" / "rocm_agent_enumerator"))
        archs = archs or dict.fromkeys(_archs_by_tool(profiler.root / "bin" / "rocminfo"))
    if len(archs) > 1:
        kinds = ", ".join(archs)
        raise KinspectError(f"GPUs of several kinds are here: {kinds}", "name one by --arch")
    return next(iter(archs), None)


def _archs_by_driver(topology: Path) -> Iterator[str]:
    for node in sorted(topology.glob("*/properties")):
        try:
            text = node.read_text(encoding="ascii", errors="replace")
        except OSError:
            continue  # a node that a container hides
        match = re.search(r"^gfx_target_version (\d+)$", text, re.MULTILINE)
        number = int(match[1]) if match else 0
        if number:
            yield f"gfx{number // 10000}{number // 100 % 100:x}{number % 100:x}"


def _archs_by_tool(path: Path) -> Iterator[str]:
    """Yields the archs that a tool of ROCm lists; none if it is missing or fails."""
    if not path.is_file():
        return
    try:
        process = run_to_end([str(path)], _VERSION_WAIT)
    except (OSError, subprocess.TimeoutExpired):
        return
    listed = process.stdout.decode("utf-8", "replace")
    for name in re.findall(r"^\s*(?:Name:\s*)?(gfx[0-9a-f]+)\s*$", listed, re.MULTILINE):
        if name != "gfx000":  # the enumerator's word for the CPU
            yield name


Version = tuple[int, ...]

_FILE = Path(__file__).with_name("versions.yaml")


class Sampling(Struct, frozen=True):
    """A method of PC sampling on an arch, with its interval."""

    method: str
    unit: str
    interval: int  # the default
    least: int
    power_of_two: bool


@cache
def _tables() -> Mapping[str, Any]:
    loaded: Mapping[str, Any] = own_yaml(_FILE)
    return loaded


def parse(text: str) -> Version | None:
    """Returns the first version number in a text: `(1, 3, 0)` of "version: 1.3.0"; None if none."""
    match = re.search(r"\d+(?:\.\d+)+", text)
    return tuple(int(part) for part in match[0].split(".")) if match else None


def show(version: Version | None) -> str:
    """Returns a version as text; "unknown version" for None."""
    return ".".join(map(str, version)) if version else "unknown version"


def sdk_of_rocm(rocm: Version) -> Version | None:
    """Returns the SDK's version in a ROCm release, of the newest listed release up to it."""
    releases = sorted((parse(k) or (), parse(v) or ()) for k, v in _tables()["sdk_of_rocm"].items())
    fitting = [sdk for release, sdk in releases if release <= rocm]
    return fitting[-1] if fitting else None


def since(option: str) -> Version:
    """Returns the first SDK version with an option that kinspect uses."""
    return parse(_tables()["since"][option]) or ()


def used_options() -> tuple[str, ...]:
    """Returns all options that kinspect uses."""
    return tuple(_tables()["since"])


def compute_has(option: str, version: Version | None) -> bool:
    """Tells whether rocprof-compute has an option; an unknown version is taken for a new one."""
    return version is None or (parse(_tables()["compute_since"][option]) or ()) <= version


def sampling(arch: str, method: str | None = None, interval: int | None = None) -> Sampling:
    """Chooses a method and interval of PC sampling for an arch.

    Args:
        arch: such as gfx942.
        method: host_trap or stochastic; the best that the arch has, if None.
        interval: in the method's unit (microseconds or cycles); a default, if None.

    Raises:
        KinspectError: the arch has no such method, or the interval is none that it takes.
    """
    methods: Mapping[str, Mapping[str, Any]] = next(
        (
            row["methods"]
            for row in _tables()["pc_sampling"]
            if re.fullmatch(str(row["arch"]), arch)
        ),
        {},
    )
    if not methods:
        archs = "gfx90a, gfx94x and gfx95x"
        raise KinspectError(f"{arch} has no PC sampling", f"it is there on {archs}; try --att")
    chosen = method or next(iter(methods))
    if chosen not in methods:
        raise KinspectError(
            f"{arch} has no {chosen} PC sampling", f"use --pc-method {' or '.join(methods)}"
        )
    row = methods[chosen]
    rate = row["default"] if interval is None else interval
    power = bool(row.get("power_of_two"))
    unit = "cycles" if row["unit"] == "cycles" else "microseconds"
    if rate < row["least"] or (power and rate & (rate - 1)):
        kind = "a power of two, " if power else ""
        raise KinspectError(
            f"{chosen} PC sampling takes no interval of {rate} {unit}",
            f"give {kind}at least {row['least']}, to --pc-interval",
        )
    return Sampling(
        method=chosen, unit=row["unit"], interval=rate, least=row["least"], power_of_two=power
    )
