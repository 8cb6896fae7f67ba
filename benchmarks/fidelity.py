"""Whether capture without a GPU finds what a GPU really runs: `python -m benchmarks.fidelity`.

On a machine with a GPU, `kinspect record -- python SCRIPT` wrote a trace of every script. Here the
same files go through capture, for an AMD target, and the specialisations are held against each
other: kernel, signature, constexprs, divisibility, num_warps, num_stages where the launch names
it, and grids. What differs is named, with what explains it if something does.

    python -m benchmarks.fidelity --scripts DIR --traces DIR --python PATH [--write]

DIR of the scripts holds a folder OWNER+NAME for each repository, with its commit in the file
`.commit`; files that only define kernels are called by drivers in its folder `drivers`. The
interpreter should have the Triton that recorded.
"""

from __future__ import annotations

import argparse
import itertools
import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kinspect.inspector import machines
from kinspect.inspector.capture.options import CaptureOptions
from kinspect.inspector.capture.script import Ended, Found, Plan, capture_file
from kinspect.inspector.capture.trace import Specialization, Trace, read_trace
from kinspect.inspector.compiler.pool import Compiler, CompileSettings
from kinspect.inspector.model import Variant

ARCH = "gfx942"
REPORT = Path(__file__).parent / "fidelity.md"
DRIVERS = "drivers"
TIME_LIMIT = 900.0
"""Seconds for one run of a script: this compares what there is, and machines are busy."""
DEFAULT_STAGES = 2
"""`num_stages` of a launch that names none, for AMD (`HIPOptions` in triton/backends/amd)."""
EVERY_X = re.compile(
    r"^( *)(\w+)\.run\((?:show_plots|save_path|print_data|return_df)\b[^)]*\)", re.M
)
"""A benchmark's run (`triton.testing.Mark.run`): capture does it at three of its x values."""
EVERY_X_FUNCTION = """\
def _every_x(mark):
    import triton.testing as testing
    one = isinstance(mark.benchmarks, testing.Benchmark)
    for benchmark in [mark.benchmarks] if one else mark.benchmarks:
        for x in benchmark.x_vals:
            at = x if isinstance(x, (list, tuple)) else [x] * len(benchmark.x_names)
            for line in benchmark.line_vals:
                stated = dict(zip(benchmark.x_names, at), **{benchmark.line_arg: line})
                try:
                    mark.fn(**stated, **benchmark.args)
                except Exception:
                    pass
"""
ANSWERS = (
    (re.compile(r"triton\.runtime\.driver\.active\.get_current_target\(\)\.backend"), '"cuda"'),
    (re.compile(r"torch\.version\.hip\b"), "None"),
    (re.compile(r"torch\.cuda\.get_device_capability\(\)"), "(9, 0)"),
)
"""A script's questions for the vendor and what they are answered on an H100 or H200."""
DEVICE = "device figures"
SAMPLING = "x values of benchmarks"
VENDOR = "vendor asked for"
WINNER = "autotuner's winner"
FAILED = "fails there too"
ENDED = "run ended early"
REASONS = {
    DEVICE: "gone once the device has the recording GPU's number of compute units, shared memory, "
    "registers and wave size",
    SAMPLING: "gone once benchmarks run at all their x values; capture takes three of each",
    VENDOR: "gone once the script's own questions for the vendor are answered as on NVIDIA",
    WINNER: "the same but for what the autotuner chooses by timing, which capture does not do",
    FAILED: "asked for on the GPU, where it did not compile either",
    ENDED: "captured only, and the recorded run did not come to its end",
}


@dataclass(frozen=True)
class Spec:
    """What is compared of a specialisation."""

    kernel: str
    signature: tuple[tuple[str, str], ...]
    constexprs: tuple[tuple[str, str], ...]
    divisible: frozenset[str]
    warps: int
    stages: int


@dataclass
class Launched:
    """A specialisation with its grids.

    `tuned` are the constexprs that an autotuner set; `compiled` says whether a compile succeeded.
    """

    spec: Spec
    grids: set[tuple[int, ...]]
    tuned: frozenset[str]
    compiled: bool = True


@dataclass
class Row:
    """The comparison of one script."""

    repo: str
    path: str
    commit: str
    recorded: int = 0
    captured: int = 0
    equal: int = 0
    explained: Counter[str] = field(default_factory=Counter)
    unexplained: list[str] = field(default_factory=list)
    grids: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)


class Listening:
    """A guest that also keeps the launch counts it sends.

    Args:
        worker: the guest.
    """

    def __init__(self, worker: Any) -> None:
        self.launches: dict[str, Any] = {}
        self.keys: list[str] = []
        self._worker = worker

    def stream(self, message: Mapping[str, Any], time_limit: float) -> Iterator[dict[str, Any]]:
        """The worker's own, with an ear to it."""
        for reply in self._worker.stream(message, time_limit):
            record = reply.get("record") or {}
            self.launches.update(record.get("launches") or {})
            if "variant" in record:
                self.keys.append(record["variant"]["key"])
            yield reply

    def close(self) -> None:
        """Ends the guest process."""
        self._worker.close()


def main() -> None:
    """Compares every trace of a folder with a capture of its script."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scripts", type=Path, required=True)
    parser.add_argument("--traces", type=Path, required=True)
    parser.add_argument("--python", required=True, help="interpreter whose Triton recorded")
    parser.add_argument("--only", default="", help="part of the names of traces to compare")
    parser.add_argument("--write", action="store_true", help=f"write {REPORT.name}")
    options = parser.parse_args()
    rows, versions, targets = [], set(), set()
    with Compiler(CompileSettings(python=options.python)) as compiler:
        ours = compiler.toolchain().triton_version
        for path in sorted(options.traces.glob("*.kitrace")):
            if options.only not in path.name:
                continue
            trace = read_trace(path)
            versions |= {s.triton for s in trace.specializations}
            targets |= {f"{s.target.backend} {s.target.arch}" for s in trace.specializations}
            row = compare(trace, options.scripts, compiler)
            rows.append(row)
            print(line_of(row), flush=True)
            for text in row.unexplained:
                print("   ", text, flush=True)
    if options.write:
        REPORT.write_text(report(rows, sorted(versions), sorted(targets), str(ours)))


def compare(trace: Trace, scripts: Path, compiler: Compiler) -> Row:
    """One script's trace against its capture."""
    script = located(Path(trace.head.command[-1]), scripts)
    files = [located(Path(s.kernel.file), scripts) for s in trace.specializations]
    files = [f for f in dict.fromkeys(files) if scripts in f.parents]
    row = named(script, files, scripts)
    recorded = [from_trace(s) for s in trace.specializations if s.via != "compile"]
    if len(recorded) < len(trace.specializations):
        others = len(trace.specializations) - len(recorded)
        row.notes.append(f"{others} kernels of Inductor's are left out")
    captured, notes = capture(script, compiler, amd_device())
    row.notes += [note.replace(f"{scripts}/", "") for note in notes]
    really, found = by_spec(recorded), by_spec(captured)
    row.recorded, row.captured = len(really), len(found)
    both = really.keys() & found.keys()
    row.equal = len(both)
    for spec in both:
        row.grids[same_grids(really[spec], found[spec], EVERY_X.search(script.read_text()))] += 1
    if trace.head.status:
        row.notes.append(f"the recorded run ended early (status {trace.head.status})")
    if really.keys() != found.keys():
        facts = next((p.device for p in trace.processes if p.device), None) or {}
        folders = {scripts / f.relative_to(scripts).parts[0] for f in [script, *files]}
        again = experiments(script, folders, facts, compiler)
        explain(row, really, found, again, trace.head.status)
    return row


def experiments(
    script: Path, folders: Iterable[Path], facts: Mapping[str, Any], compiler: Compiler
) -> Iterator[tuple[str, dict[Spec, Launched]]]:
    """Captures again, each time with one more thing as it was on the recording machine.

    Args:
        script: what is captured.
        folders: the repositories that it needs.
        facts: what the recording machine's driver says of its device.
        compiler: lends the guest.

    Yields:
        What was made the same, and what capture then finds.
    """
    device = {**amd_device(), **as_recorded(facts)}
    yield DEVICE, by_spec(capture(script, compiler, device)[0])
    root = min(folders).parent
    for why, change in ((SAMPLING, all_x), (VENDOR, lambda text: all_x(as_nvidia(text)))):
        with tempfile.TemporaryDirectory() as copy:
            changed = 0
            for path in itertools.chain.from_iterable(f.rglob("*.py") for f in folders):
                there = Path(copy) / path.relative_to(root)
                there.parent.mkdir(parents=True, exist_ok=True)
                text = path.read_text("utf-8", "replace")
                there.write_text(change(text))
                changed += there.read_text() != text
            if changed:
                there = Path(copy) / script.relative_to(root)
                yield why, by_spec(capture(there, compiler, device)[0])


def by_spec(launched: Iterable[Launched]) -> dict[Spec, Launched]:
    """Joins those that are told apart by nothing that is compared (paths of libraries, say)."""
    found: dict[Spec, Launched] = {}
    for one in launched:
        known = found.get(one.spec)
        if known is not None:
            one = replace(
                one, grids=one.grids | known.grids, compiled=one.compiled or known.compiled
            )
        found[one.spec] = one
    return found


def explain(
    row: Row,
    recorded: Mapping[Spec, Launched],
    captured: Mapping[Spec, Launched],
    again: Iterator[tuple[str, dict[Spec, Launched]]],
    status: int | None,
) -> None:
    """Says of each specialisation that only one side has why that is so, if that is known.

    It is known where the difference goes away in an experiment; where the two differ in nothing
    but an autotuner's choice; and where the recorded run did not come to its end.
    """
    missing = recorded.keys() - captured.keys()
    extra = captured.keys() - recorded.keys()
    final = captured
    for why, found in again:
        cleared = (missing & found.keys()) | (extra - found.keys())
        row.explained[why] += len(cleared)
        missing, extra, final = missing - cleared, extra - cleared, found
        if not missing and not extra:
            break
    ours = {left_open(one) for one in final.values()}
    theirs = {left_open(one) for one in recorded.values()}
    for where, specs, side, others in (
        ("recorded", missing, recorded, ours),
        ("captured", extra, captured, theirs),
    ):
        for spec in specs:
            if side[spec].tuned and left_open(side[spec]) in others:
                row.explained[WINNER] += 1
            elif not side[spec].compiled:
                row.explained[FAILED] += 1
            elif where == "captured" and status:
                row.explained[ENDED] += 1
            else:
                apart = nearest(spec, final if where == "recorded" else recorded)
                row.unexplained.append(f"{where} only: {spec.kernel}: {', '.join(apart)}")


def left_open(one: Launched) -> Spec:
    """A specialisation without what its autotuner chose."""
    spec = one.spec
    constexprs = tuple(pair for pair in spec.constexprs if pair[0] not in one.tuned)
    return replace(spec, constexprs=constexprs, warps=0, stages=0) if one.tuned else spec


def all_x(text: str) -> str:
    """The script with its benchmarks run at every x value, as they are on a GPU."""
    changed = EVERY_X.sub(r"\1_every_x(\2)", text)
    return EVERY_X_FUNCTION + changed if changed != text else text


def as_nvidia(text: str) -> str:
    """The script with its questions for the vendor answered as on an NVIDIA machine."""
    for question, answer in ANSWERS:
        text = question.sub(answer, text)
    return text


def nearest(spec: Spec, others: Mapping[Spec, Launched]) -> list[str]:
    """In what a specialisation differs from the nearest one of the same kernel."""
    found = [differences(spec, other) for other in others if other.kernel == spec.kernel]
    return min(found, key=len, default=["kernel"])


def amd_device() -> dict[str, Any]:
    """What scripts may ask of the target."""
    machine = machines.load(ARCH)
    return {
        "arch": ARCH,
        "wave_size": machine.wave_sizes[0],
        "compute_units": machine.cus,
        "lds_bytes": machine.lds_max,
    }


def as_recorded(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The AMD device with the figures of the recording machine's."""
    figures = {
        "compute_units": facts.get("multiprocessor_count"),
        "compute_units_per_multiprocessor": 1,
        "lds_bytes": facts.get("max_shared_mem"),
        "registers_per_block": facts.get("max_num_regs"),
        "wave_size": facts.get("warpSize"),
    }
    known = {name: value for name, value in figures.items() if value is not None}
    return {**amd_device(), **known}


def differences(one: Spec, other: Spec) -> list[str]:
    """The parts in which two specialisations of a kernel differ."""
    found = [
        f"signature {name}: {a} / {b}"
        for name, a, b in unequal(dict(one.signature), dict(other.signature))
    ]
    found += [
        f"constexpr {name}: {a} / {b}"
        for name, a, b in unequal(dict(one.constexprs), dict(other.constexprs))
    ]
    apart = one.divisible ^ other.divisible
    found += [f"divisibility {name}" for name in sorted(apart)]
    if one.warps != other.warps:
        found.append(f"num_warps: {one.warps} / {other.warps}")
    if one.stages != other.stages:
        found.append(f"num_stages: {one.stages} / {other.stages}")
    return found


def unequal(one: Mapping[str, str], other: Mapping[str, str]) -> Iterator[tuple[str, Any, Any]]:
    for name in dict.fromkeys((*one, *other)):
        if one.get(name) != other.get(name):
            yield name, one.get(name), other.get(name)


def same_grids(recorded: Launched, captured: Launched, benchmarks: object) -> str:
    """How the grids of an equal specialisation compare.

    Args:
        recorded: as it really ran.
        captured: the same as capture found it.
        benchmarks: whether the script has benchmarks, of which capture leaves out most x values.
    """
    if recorded.grids == captured.grids:
        return "equal"
    if recorded.tuned:  # later launches go to the winner alone, which may be another
        return WINNER
    if benchmarks and captured.grids <= recorded.grids:
        return SAMPLING
    return "unexplained"


def from_trace(one: Specialization) -> Launched:
    """A recorded specialisation in the form that is compared."""
    names = list(one.signature)
    asked = one.asked or {}
    divisible = {
        argument(names, path)
        for path, pairs in one.attrs
        if ["tt.divisibility", 16] in [list(p) for p in pairs]
    }
    spec = Spec(
        one.kernel.qualname,
        tuple((name, type_text(kind)) for name, kind in one.signature.items()),
        tuple(sorted((argument(names, p), value_text(v)) for p, v in one.constexprs)),
        frozenset(divisible),
        int(one.options["num_warps"]),
        int(asked.get("num_stages", DEFAULT_STAGES)),
    )
    grids = {tuple(grid) for grid, _ in one.grids}
    tuned = frozenset(one.tuning.config if one.tuning else ())
    return Launched(spec, grids, tuned, one.compiled)


def from_capture(one: Variant, facts: Mapping[str, Any] | None) -> Launched:
    """A captured specialisation, with its launches, in the form that is compared."""
    divisible = {name for name, attrs in one.attrs.items() if attrs.get("tt.divisibility") == 16}
    spec = Spec(
        one.qualname or one.kernel,
        tuple(one.signature.items()),
        tuple(sorted((name, plain_text(v)) for name, v in one.constexprs.items())),
        frozenset(divisible),
        int(one.options["num_warps"]),
        int(one.options["num_stages"]),
    )
    grids = {(*grid, 1, 1)[:3] for grid, _ in (facts or {}).get("grids", ())}
    return Launched(spec, grids, frozenset(one.tuning or ()))


def capture(
    script: Path, compiler: Compiler, device: Mapping[str, Any]
) -> tuple[list[Launched], list[str]]:
    """What a capture of the script finds on a device, and its notes and errors."""
    found: list[Variant] = []
    notes: list[str] = []
    with compiler.worker() as worker, tempfile.TemporaryDirectory() as folder:
        plan = Plan(
            path=script,
            mode="script",
            archs=(ARCH,),
            devices={ARCH: device},
            folder=Path(folder),
            options=CaptureOptions(max_configs=None, time_limit=TIME_LIMIT),
        )
        guest = Listening(worker)
        for item in capture_file(guest, plan):
            if isinstance(item, Found):
                found.append(item.variant)
            elif isinstance(item, Ended):
                notes += [*item.notes, *(e.message for e in item.errors)]
    pairs = zip(found, guest.keys, strict=True)
    return [from_capture(v, guest.launches.get(key)) for v, key in pairs], notes


def located(path: Path, scripts: Path) -> Path:
    """A file of the recording machine in the folder of scripts here."""
    parts = path.parts
    if scripts.name not in parts:
        return path
    return scripts.joinpath(*parts[parts.index(scripts.name) + 1 :])


def named(script: Path, files: Sequence[Path], scripts: Path) -> Row:
    """The row of a script: its own place, or for a driver that of the kernels it calls."""
    ours = script.relative_to(scripts).parts[0] == DRIVERS
    shown = sorted(f for f in files if f.exists()) if ours else [script]
    relative = [f.relative_to(scripts) for f in shown]
    folder = relative[0].parts[0]
    commit = (scripts / folder / ".commit").read_text().strip()
    path = ", ".join(str(Path(*r.parts[1:])) for r in relative)
    return Row(folder.replace("+", "/"), path, commit)


def argument(names: Sequence[str], path: Sequence[int | str]) -> str:
    """`x`, or `x[1]` for an element of a tuple."""
    first, *rest = path
    name = names[first] if isinstance(first, int) else first
    return "".join([name, *(f"[{n}]" for n in rest)])


def type_text(kind: Any) -> str:
    """A recorded type as the front end's report spells it."""
    if isinstance(kind, dict):
        return "(" + ", ".join(map(type_text, kind["tuple"])) + ")"
    return str(kind)


def value_text(value: Any) -> str:
    """A recorded constant as text that equals `plain_text` of the captured one."""
    if not isinstance(value, dict):
        return repr(value)
    for name in ("tuple", "list", "items"):
        if name in value:
            return "[" + ", ".join(map(value_text, value[name])) + "]"
    if "constexpr" in value:
        return value_text(value["constexpr"])
    if "object" in value:
        return repr(value["object"]["qualname"].rpartition(".")[2])
    texts = [v for v in value.values() if isinstance(v, str)]
    return repr(texts[0]) if texts else repr(value)


def plain_text(value: Any) -> str:
    """A captured constant as text."""
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(plain_text, value)) + "]"
    return repr(value)


def line_of(row: Row) -> str:
    explained = ", ".join(f"{n} {why}" for why, n in sorted(row.explained.items()) if n)
    grids = ", ".join(f"{n} {how}" for how, n in sorted(row.grids.items()))
    return (
        f"{row.repo} {row.path}: recorded {row.recorded} captured {row.captured} equal {row.equal}"
        f" unexplained {len(row.unexplained)} [{explained}] grids [{grids}] {row.notes}"
    )


def report(rows: Sequence[Row], versions: Sequence[str], gpus: Sequence[str], ours: str) -> str:
    """The result as Markdown."""
    total = Row("", "", "")
    for row in rows:
        total.recorded += row.recorded
        total.captured += row.captured
        total.equal += row.equal
        total.explained += row.explained
        total.unexplained += row.unexplained
        total.grids += row.grids
    exact = sum(not row.unexplained and not row.grids["unexplained"] for row in rows)
    reasons = [r for r in REASONS if total.explained[r] or total.grids[r]]
    lines = [
        "# Fidelity: captured without a GPU against recorded on one",
        "",
        f"Recorded by `kinspect record` with Triton {', '.join(versions)} on {', '.join(gpus)}; "
        f"captured by kinspect with Triton {ours} for {ARCH}, on a machine without a GPU, all "
        "autotune configurations. Written by `python -m benchmarks.fidelity`, which says what is "
        "compared. None of the scripts is part of this repository.",
        "",
        f"{len(rows)} scripts: {total.recorded} specialisations recorded, {total.captured} "
        f"captured, {total.equal} on both sides, {sum(total.explained.values())} differences "
        f"explained, {len(total.unexplained)} not. Of the specialisations on both sides "
        f"{total.grids['equal']} were launched with the same grids, "
        f"{total.equal - total.grids['equal'] - total.grids['unexplained']} with others that are "
        f"explained, {total.grids['unexplained']} with others that are not. In {exact} scripts "
        "everything is equal or explained.",
        "",
        "An explanation is an experiment or a rule, in this order:",
        "",
        *(
            f"- {reason} ({total.explained[reason]} specialisations, {total.grids[reason]} grids):"
            f" {REASONS[reason]}"
            for reason in reasons
        ),
        "",
        "| repository | path | commit | recorded | captured | equal | explained | unexplained "
        "| grids equal / explained / not |",
        "|---|---|---|--:|--:|--:|---|--:|--:|",
        *(table_line(row) for row in rows),
        "",
    ]
    left = [f"- {row.path}: {text}" for row in rows for text in row.unexplained]
    left += [
        f"- {row.path}: {row.grids['unexplained']} specialisations with other grids"
        for row in rows
        if row.grids["unexplained"]
    ]
    lines += ["## Not explained", "", *(left or ["Nothing."]), ""]
    notes = [f"- {row.path}: {note}" for row in rows for note in row.notes]
    return "\n".join([*lines, "## Notes", "", *(notes or ["None."]), ""])


def table_line(row: Row) -> str:
    explained = ", ".join(f"{n} {why}" for why, n in sorted(row.explained.items()) if n)
    same, other = row.grids["equal"], row.grids["unexplained"]
    grids = f"{same} / {row.equal - same - other} / {other}"
    return (
        f"| {row.repo} | {row.path} | {row.commit[:12]} | {row.recorded} | {row.captured} "
        f"| {row.equal} | {explained} | {len(row.unexplained)} | {grids} |"
    )


if __name__ == "__main__":
    main()
