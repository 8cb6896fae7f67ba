"""Runs a program under a profiler, pass by pass, and reads the files that the passes leave."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from ... import machines
from ...base.errors import KinspectError
from ...base.version import VERSION
from . import commands, counter_sets, installed, manifest, pass_launch
from .commands import Att, Measurements, PlannedPass
from .manifest import Manifest, PassRecord
from .outcome import judge

NOT_FOUND, NOT_RUNNABLE = 127, 126
"""Exit statuses for a command that does not exist or cannot be run, as shells have them."""

TRITON = "triton"
"""The folder of a run that the program's Triton compiles into."""

Say = Callable[[str], None]


class ProfileRequest(Struct, frozen=True):
    """The options of `kinspect profile`.

    Args:
        counters: names of counters or of groups of them, as typed; None for no counters.
        sampling_interval: interval of the samples in the method's unit; None for its default.
        kernel: a regular expression: only kernels whose names it matches are measured.
    """

    command: tuple[str, ...]  # the program and its arguments
    counters: str | None = None
    att: bool = False  # whether thread traces are recorded
    att_options: Att = field(default_factory=Att)  # options of the thread trace
    sampling: bool = False  # whether the program counter is sampled
    sampling_method: str | None = None  # how it is sampled; None for the best that the GPU has
    sampling_interval: int | None = None
    kernel: str | None = None
    skip_warmup: int | None = None  # how many first launches of each kernel are left out
    tool: str | None = None  # the profiler's name; None for the best that is installed
    rocprof: Path | None = None  # path of the profiler; None to search for it
    arch: str | None = None  # the target; None to ask the GPU
    timeout: float | None = None  # seconds that a pass may take; None for no limit
    keep_cache: bool = False  # whether Triton uses its usual cache, not a folder of the run


class Prepared(Struct, frozen=True):
    """A request with the profiler that runs it, and the measurements that this can make."""

    request: ProfileRequest
    profiler: installed.Profiler
    arch: str | None
    measurements: Measurements
    notes: tuple[str, ...] = ()


class ProfilePlan(Struct, frozen=True):
    """The passes that will be run, and the folder `run` that they write to."""

    request: ProfileRequest
    profiler: installed.Profiler
    arch: str | None
    run: Path
    passes: tuple[PlannedPass, ...]
    notes: tuple[str, ...] = ()


def check_command(command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
    """Raises KinspectError, with a shell's exit status, if a command cannot be run."""
    env = os.environ if environment is None else environment
    name = command[0]
    if shutil.which(name, path=env.get("PATH")):
        return
    hint = "name a program, as you would without kinspect"
    if name.endswith(".py"):
        hint = f"did you mean `kinspect profile -- python {' '.join(command)}`?"
    exists = os.sep in name and os.path.exists(name)
    if exists:
        raise KinspectError(f"{name}: cannot be executed", hint, exit_code=NOT_RUNNABLE)
    raise KinspectError(f"{name}: command not found", hint, exit_code=NOT_FOUND)


def prepare(request: ProfileRequest, *, dry: bool = False) -> Prepared:
    """Finds the profiler and plans its passes; neither runs the user's program nor writes files.

    `dry`: the plan is only shown: a missing decoder of thread traces is a note, not an error.

    Raises:
        KinspectError: no profiler, no such counter, or a measurement that it cannot make.
    """
    profiler = installed.find_profiler(request.command, request.tool, request.rocprof)
    arch = _arch(request, profiler)
    att, notes = _trace_options(request, profiler, dry) if request.att else (None, [])
    sampling = None
    if request.sampling:
        assert arch is not None
        sampling = installed.sampling(arch, request.sampling_method, request.sampling_interval)
    if profiler.tool != "rocprofv3" and request.tool is None and request.rocprof is None:
        notes.append(f"no rocprofv3 found; using {profiler.describe()}")
    measurements = Measurements(
        counters=_counters_of_passes(request, arch),
        att=att,
        sampling=sampling,
        kernel=request.kernel,
        skip_warmup=request.skip_warmup,
    )
    prepared = Prepared(
        request=request, profiler=profiler, arch=arch, measurements=measurements, notes=tuple(notes)
    )
    lay_out(prepared, Path())  # refuses what this profiler cannot do
    return prepared


def _trace_options(
    request: ProfileRequest, profiler: installed.Profiler, dry: bool
) -> tuple[Att, list[str]]:
    """Returns the options of a thread trace with the decoder's folder, and notes."""
    options = request.att_options
    try:
        library = installed.find_decoder(profiler, options.library)
    except KinspectError as error:
        if not dry:
            raise
        return options, [str(error)]
    return replace(options, library=library), []


def _counters_of_passes(request: ProfileRequest, arch: str | None) -> tuple[tuple[str, ...], ...]:
    """Divides the requested counters into passes that the hardware can count."""
    if not request.counters:
        return ()
    assert arch is not None
    groups = counter_sets.groups(counter_sets.parse(request.counters), arch)
    return counter_sets.split(groups, counter_sets.of_arch(arch), counter_sets.clock(arch))


def lay_out(prepared: Prepared, run: Path) -> ProfilePlan:
    """Returns the plan of a run in the folder `run`, which need not exist yet."""
    request, profiler = prepared.request, prepared.profiler
    planned = commands.plan(profiler, prepared.measurements, request.command, run)
    notes = (*prepared.notes, *dict.fromkeys(note for item in planned for note in item.notes))
    environment = _environment(request, run)
    planned = tuple(
        replace(item, environment={**environment, **item.environment}) for item in planned
    )
    return ProfilePlan(
        request=request, profiler=profiler, arch=prepared.arch, run=run, passes=planned, notes=notes
    )


def _arch(request: ProfileRequest, profiler: installed.Profiler) -> str | None:
    """Returns the GPU's arch, as requested or found; None if unknown and not needed."""
    if request.arch is not None:
        return machines.load(request.arch).arch  # a wrong name is refused before anything runs
    is_needed = bool(request.counters) or request.sampling
    try:
        arch = installed.gpu_arch(profiler)
    except KinspectError:
        if is_needed:
            raise
        return None
    if arch is None and is_needed:
        option = "--counters" if request.counters else "--pc-sampling"
        raise KinspectError(
            f"{option}: no GPU found that says what it is",
            "name it by --arch, such as --arch gfx942 (`rocminfo` lists it)",
        )
    return arch


def _environment(request: ProfileRequest, run: Path) -> dict[str, str]:
    """Returns variables that make Triton compile into the run's folder, where the code stays."""
    if request.keep_cache or os.environ.get("TRITON_CACHE_DIR"):
        return {}
    return {"TRITON_CACHE_DIR": str(run.absolute() / TRITON)}


def execute(plan: ProfilePlan, say: Say, options: Mapping[str, object] | None = None) -> Manifest:
    """Runs the passes, and writes the manifest at the start and after each.

    `plan`: from `lay_out`; its folder exists.

    Returns:
        The manifest; its exit code is that of the whole run.
    """
    record = _initial_manifest(plan, options or {})
    manifest.write(record, plan.run)
    input_position = pass_launch.input_position()
    stop: str | None = None
    for number, item in enumerate(plan.passes):
        former = record.passes[number]
        if stop is not None:
            record = record.with_pass(replace(former, status="skipped", notes=(stop,)))
            continue
        say(f"pass {number + 1} of {len(plan.passes)}: {item.title}")
        record = record.with_pass(replace(former, status="running"))
        manifest.write(record, plan.run)
        outcome, stop = _run_pass(
            plan, item, former, first=number == 0, input_position=input_position
        )
        for message, hint in outcome.errors:
            say(f"pass {number + 1} ({item.name}): {message}; {hint}")
        record = record.with_pass(outcome)
        manifest.write(record, plan.run)
    skipped = [item.name for item in record.passes if item.status == "skipped"]
    if skipped:
        say(f"not run: {', '.join(skipped)}: {stop}")
    record = replace(record, ended=manifest.now(), exit_code=exit_code(record.passes))
    manifest.write(record, plan.run)
    return record


def _initial_manifest(plan: ProfilePlan, options: Mapping[str, object]) -> Manifest:
    """Returns the manifest of a run that is about to start."""
    return Manifest(
        command=plan.request.command,
        cwd=os.getcwd(),
        kinspect=VERSION,
        tool=plan.profiler.tool,
        tool_version=installed.show(plan.profiler.version) if plan.profiler.version else None,
        tool_path=str(plan.profiler.path),
        arch=plan.arch,
        started=manifest.now(),
        passes=tuple(
            PassRecord(
                name=item.name,
                folder=str(item.folder.relative_to(plan.run)),
                argv=item.argv,
                environment=dict(item.environment),
                counters=item.counters,
                notes=item.notes,
            )
            for item in plan.passes
        ),
        options=dict(options),
    )


def exit_code(records: Iterable[PassRecord]) -> int:
    """Returns the exit code of a run.

    That is the program's if it failed, 125 if only kinspect or the profiler failed, else 0.
    """
    own_code = 0
    for record in records:
        if record.status in ("waiting", "skipped", "complete") and not record.errors:
            continue
        if record.exit_code and record.status in ("failed", "killed"):
            return record.exit_code
        if record.errors or record.status != "complete":
            own_code = installed.OWN_FAILURE
    return own_code


def _run_pass(
    plan: ProfilePlan,
    item: PlannedPass,
    former: PassRecord,
    *,
    first: bool,
    input_position: int | None,
) -> tuple[PassRecord, str | None]:
    """Runs a pass; also returns why the later passes must not run, None if they may."""
    item.folder.mkdir(parents=True, exist_ok=True)
    for path, text in item.files.items():
        path.write_text(text, encoding="utf-8")
    environment = {**os.environ, **item.environment}
    timeout = plan.request.timeout
    try:
        ending = pass_launch.run(item.argv, environment, timeout, input_position=input_position)
    except OSError as error:
        reason = error.strerror or str(error)
        error_and_hint = (f"{item.argv[0]} cannot be run ({reason})", "name another by --rocprof")
        return replace(
            former, status="failed", errors=(error_and_hint,)
        ), "the profiler cannot be run"
    files = tuple(
        str(path.relative_to(plan.run)) for path in sorted(item.folder.rglob("*")) if path.is_file()
    )
    record = replace(
        former,
        status=ending.status,
        exit_code=ending.exit_code,
        seconds=round(ending.seconds, 3),
        files=files,
    )
    return judge(record, item, ending, first=first, timeout=timeout)
