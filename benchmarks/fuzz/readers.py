"""The readers under test: how each is run on a folder of files, and what its files are."""

from __future__ import annotations

import contextlib
import functools
import inspect
import io
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kinspect.inspector.base.documents import json_value
from kinspect.inspector.base.errors import KinspectError

from . import seeds
from .mutate import OUTSIDE, Files

if TYPE_CHECKING:
    from kinspect.inspector.model import KernelReport, Report

_TEXT = {"": "text"}
STEERING = ("calls.json", "launch.json")
"""Files that say what a case does; no reader is given them."""


@dataclass(frozen=True, slots=True)
class FuzzedReader:
    """A reader of files.

    Args:
        name: what the command line calls it.
        run: reads the files of a folder; gives what an error record says of them, else nothing.
        seeds: undamaged files.
        kinds: suffix -> how files are damaged; see `mutate`.
        words: tokens that mean something to it.
        special: share of the cases that have a pipe, link or device among their files; only of
            readers that open the files themselves.
    """

    name: str
    run: Callable[[Path], str]
    seeds: Callable[[], Sequence[Files]]
    kinds: Mapping[str, str]
    words: tuple[bytes, ...] = ()
    special: float = 0.0


def _target(case: Path) -> str:
    """As `kinspect analyze` reads a target, in every form of its result."""
    from kinspect.inspector.pipeline import collecting as pipeline
    from kinspect.inspector.pipeline.jobs import Request

    return _written(pipeline.collect(Request(tuple(map(str, case.iterdir())))))


def _named(case: Path) -> str:
    """Assembly that names the files beside it: sources, an include."""
    from kinspect.inspector.pipeline import collecting as pipeline
    from kinspect.inspector.pipeline.jobs import Request

    return _written(pipeline.collect(Request((str(case / "k.s"),))))


def _ttgir(case: Path) -> str:
    """TTGIR that is only read; what can be compiled goes to Triton's own parser."""
    from kinspect.inspector.base.limits import within
    from kinspect.inspector.model import Report
    from kinspect.inspector.pipeline import analysis
    from kinspect.inspector.pipeline.analysis_options import Context

    (path,) = case.iterdir()
    text = path.read_text("utf-8", "replace")
    context = Context(str(path))

    def read() -> Iterator[KernelReport]:
        yield from analysis.analyze_ttgir(text, context)

    return _written(Report(path.name, {}, tuple(within(path.name, len(text), read())), ()))


def _written(report: Report) -> str:
    from kinspect.inspector.explain import view
    from kinspect.inspector.formats.html import page
    from kinspect.inspector.formats.html.kernel import page_kernels
    from kinspect.inspector.present.report import write_markdown, write_text
    from kinspect.inspector.report import json_write as json_v1

    out = io.StringIO()
    for write in (json_v1.write, write_text, write_markdown):
        write(report, out)
    page.write_report(report, page_kernels(view.worst_first(report.kernels)), out)
    assert OUTSIDE not in out.getvalue(), "a file outside was read"
    internal = [e.message for e in report.errors if e.message.startswith("internal error")]
    said = internal or [e.message for e in report.errors]
    return said[0] if said else ""


def _elf(case: Path) -> str:
    """A code object without a disassembler: notes, descriptors, line tables, inlining."""
    from kinspect.inspector.base.limits import reading
    from kinspect.inspector.isa.objects.bundle import extract_code_objects
    from kinspect.inspector.isa.objects.codeobject import read_code_object
    from kinspect.inspector.isa.objects.elf import read_elf
    from kinspect.inspector.isa.objects.linemap import read_line_map

    (path,) = case.iterdir()
    data = path.read_bytes()
    with reading(path.name, len(data)):
        for _, image in extract_code_objects(data, path.name):
            read_code_object(image, path.name)
            read_line_map(read_elf(image, path.name))
    return ""


def _ttir(case: Path) -> str:
    from kinspect.inspector import machines
    from kinspect.inspector.base.limits import reading
    from kinspect.inspector.capture.ttir import compilable_ttgir, variant_of
    from kinspect.inspector.ttgir.lowered import read_dots

    (path,) = case.iterdir()
    text = path.read_text("utf-8", "replace")
    with reading(path.name, len(text)):
        compilable_ttgir(text)
        read_dots(text, path.name)
        variant_of(text, path.name, machines.load("gfx942"), None)
    return ""


def _folder(case: Path) -> str:
    """A folder as a target: what lies in it, and what was said beside it."""
    from kinspect.inspector.capture.resolving import resolve_all
    from kinspect.inspector.capture.triton_entries import stated_beside

    for target in resolve_all([str(case)], ("gfx942",)):
        stated_beside(target.siblings)
    return ""


def _trace(case: Path) -> str:
    from kinspect.inspector.base.limits import reading
    from kinspect.inspector.capture.trace import read_trace

    (path,) = case.iterdir()
    with reading(path.name, path.stat().st_size if path.is_file() else 0):
        try:
            read_trace(path)
        except OSError as error:
            return str(error)
    return ""


def _inductor(case: Path) -> str:
    from kinspect.inspector.capture.targets import is_inductor
    from kinspect.inspector.guest.inductor.generated_source import SourceError, kernels_of
    from kinspect.inspector.guest.readable_files import read

    (path,) = case.iterdir()
    is_inductor(path)
    try:
        for _ in kernels_of(read(str(path)).decode("utf-8", "replace"), path.name):
            pass
    except OSError as error:
        return str(error)
    except SourceError as error:
        return f"{error}; {error.hint}"
    return ""


def _case_file(case: Path) -> str:
    from kinspect.inspector.capture.options import CaptureOptions
    from kinspect.inspector.capture.script import mode_of
    from kinspect.inspector.lint.suppress import in_text

    (path,) = case.iterdir()
    in_text(path.read_text("utf-8", "replace"), path.name)
    return "" if mode_of(path, CaptureOptions()) == "cases" else "a script"


def _lint(case: Path) -> str:
    """A pack, a baseline or settings, as `kinspect lint` reads them before it asks anything."""
    from kinspect.inspector.lint import settings
    from kinspect.inspector.pipeline.lint_plan import LintOptions, make_plan

    names = {path.name: path for path in case.iterdir()}
    pack, known = names.get("pack.yaml"), names.get("baseline.json")
    asked = LintOptions(rules=(str(pack),) if pack is not None else (), baseline=known)
    make_plan(asked, settings.load(names.get("pyproject.toml"), case))
    return ""


def _recording(case: Path) -> str:
    from kinspect.inspector.formats import profile_json
    from kinspect.inspector.pipeline import profiling
    from kinspect.inspector.pipeline.collecting import collect
    from kinspect.inspector.present.profile import document
    from kinspect.inspector.present.text import show

    profile = profiling.profile_of(case, profiling.Options(), collect)
    profile_json.write(profile, io.StringIO())
    show(document(profile), io.StringIO())
    errors = (*profile.recording.errors, *profile.errors)
    return errors[0].message if errors else ""


def _fault(case: Path) -> str:
    from kinspect.inspector.host.fault.parse import read_reports

    read_reports(sorted(case.iterdir()))
    return ""


def _sizes(case: Path) -> str:
    from kinspect.inspector.bench.suite.case_files import fit_keys, read_gpumode, read_tune_gemm

    (path,) = case.iterdir()
    read = read_tune_gemm if path.suffix == ".yaml" else read_gpumode
    known = [{"m": 64, "n": 64, "k": 128, "seed": 1}]
    for given in read(path.read_text("utf-8", "replace"), path.name)[:100]:
        fit_keys(given, known, "gemm")
    return ""


def _metadata(case: Path) -> str:
    from kinspect.inspector.isa.asm.directives import read_metadata

    (path,) = case.iterdir()
    found = read_metadata(path.read_text("utf-8", "replace"))
    return found.notes[0] if found.notes else ""


def _note(case: Path) -> str:
    from kinspect.inspector.isa.objects.amdnote import read_note
    from kinspect.inspector.isa.objects.elf import read_elf

    (path,) = case.iterdir()
    read_note(read_elf(seeds.with_note(path.read_bytes()), path.name))
    return ""


def _history(case: Path) -> str:
    from kinspect.inspector.bench.history.store import History

    (path,) = case.iterdir()
    history = History(path.parent)
    for name in history.names():
        history.measured(name)
        history.sightings(name)
    for run in history.analyses():
        history.analysed(run.id)
    return ""


def _ledger(case: Path) -> str:
    from kinspect.inspector.host.env.changing import Ledger

    (path,) = case.iterdir()
    Ledger(path).read()
    return ""


def _mcp(case: Path) -> str:
    """Calls of the server's tools, over the files of a folder; see its `told`."""
    from kinspect.inspector.api.mcp_server import Tools

    answers = []
    calls = json_value((case / "calls.json").read_bytes(), "calls.json")
    os.chdir(case)
    tools = Tools()
    for call in calls if isinstance(calls, list) else ():
        known = isinstance(call, dict) and str(call.get("tool")) in _TOOLS
        arguments = call.get("arguments") if known else None
        # The server checks types before it calls: only texts of texts come through.
        if isinstance(arguments, dict) and all(isinstance(v, str) for v in arguments.values()):
            with contextlib.suppress(TypeError):  # an argument that the tool has not
                inspect.signature(getattr(tools, call["tool"])).bind(**arguments)
                answers.append(_told(getattr(tools, call["tool"]), arguments))
    assert not any(OUTSIDE in answer for answer in answers), "a file outside was read"
    assert not Path("/tmp/kinspect-fuzz-canary").exists(), "something was run"
    return answers[-1] if answers else ""


_TOOLS = ("analyze", "lint", "show", "code", "emulate", "occupancy")


def _told(tool: Callable[..., str], arguments: Mapping[str, str]) -> str:
    try:
        return tool(**arguments)
    except KinspectError as error:
        return str(error)


def _emulate(case: Path) -> str:
    """Code launched as a file beside it says."""
    from kinspect.inspector.api.executing import emulate_code

    launch = json_value((case / "launch.json").read_bytes(), "launch.json")
    if not isinstance(launch, dict):
        return "no launch"
    grid, block = (
        tuple(v) if isinstance(v := launch.get(k), list) and len(v) == 3 else (1, 1, 1)
        for k in ("grid", "block")
    )
    if not all(type(n) is int for n in (*grid, *block)):
        return "no launch"
    done = emulate_code(
        case / "k.s", str(launch.get("arguments")), grid=grid, block=block, time_limit=10
    )
    return "" if done.passed else "findings"


def _timed(case: Path) -> str:
    """Code timed for the launch that a file beside it states, as `kinspect time` does."""
    import click
    from kinspect.inspector.base.streams import dump_json
    from kinspect.inspector.cli.options import grid_shape, workgroup_shape
    from kinspect.inspector.pipeline.analysis_options import AnalysisOptions, Overrides
    from kinspect.inspector.pipeline.collecting import collect
    from kinspect.inspector.pipeline.jobs import request_for, timing
    from kinspect.inspector.present import text
    from kinspect.inspector.present import time as present_time

    from ..timed_suite import faults_of

    launch = json_value((case / "launch.json").read_bytes(), "launch.json")
    if not isinstance(launch, dict):
        return "no launch"
    lds, clock = launch.get("lds"), launch.get("clock")
    context = click.Context(click.Command("time"))
    try:
        grid = grid_shape(context, click.Option(["--x"]), str(launch.get("grid")))
        block = workgroup_shape(context, click.Option(["--x"]), str(launch.get("block")))
    except click.BadParameter as error:
        return error.message
    if type(lds) is not int or lds < 0:
        return "no launch"
    analysis = timing(
        AnalysisOptions(lanes=False, races=False, values=False),
        arguments=str(launch.get("arguments")),
        clock_mhz=clock if type(clock) is float and 1 <= clock <= 1e5 else None,
        gpu=str(launch["gpu"]) if launch.get("gpu") is not None else None,
        savings=True,
        seconds=0.5,
    )
    overrides = Overrides(grid=grid, workgroup=block, lds_bytes=lds)
    report = collect(request_for([case / "k.s"], jobs=1, overrides=overrides, analysis=analysis))
    dump_json(present_time.fields(report.kernels, None), io.StringIO())
    text.show(present_time.document(report.kernels, None), io.StringIO())
    for kernel in report.kernels:
        for fault in faults_of(kernel):
            return fault if fault.startswith("internal error") else f"internal error: {fault}"
    said = [e.message for e in report.errors] + [k.no_time or "" for k in report.kernels]
    return said[0] if said else ""


_RECORDED = {".json": "json", ".csv": "text", ".db": "sqlite", ".yaml": "yaml", ".txt": "text"}
_ASM_WORDS = (
    b".rept 100000\n", b".endr\n", b".macro m a\n", b".endm\n", b"m 1\n", b".if 1\n",
    b".endif\n", b".irp x,1,2\n", b".set s, s+1\n", b"s_branch .LBB0_1\n", b".LBB0_1:\n",
    b"s_cbranch_scc0 ", b"v[0:255]", b".amdgpu_metadata\n", b".end_amdgpu_metadata\n",
    b"s_waitcnt vmcnt(0)\n", b"s_endpgm\n", b"; kinspect: ignore[KI001]", b".amdhsa_kernel k\n",
    b"s_setpc_b64 s[0:1]\n", b".loc 1 1 1\n",
)  # fmt: skip
_TIMED_WORDS = (
    *_ASM_WORDS, b"s_barrier\n", b"global_load_dwordx4 v[4:7], v1, s[4:5]\n", b"ds_read_b128 ",
    b"scratch_store_dword off, v0, off offset:4\n", b"s_mov_b64 exec, 0\n", b"s_sleep 127\n",
    b"v_mfma_f32_16x16x16_f16 v[0:3], v[4:5], v[6:7], v[0:3]\n", b"s_cbranch_scc1 .Lloop\n",
    b"global_atomic_add v3, v1, v2, s[4:5] sc0\n", b"f32[65536]=zeros", b"i32 64", b"MI250X",
)  # fmt: skip
_MLIR_WORDS = (
    b"#blocked", b"tensor<1x99999999999xf32, #blocked>", b"loc(", b"#loc = loc(#loc)\n",
    b"scf.for ", b"{tt.divisibility = 16 : i32}", b"tt.func public @k(", b"} loc(#loc1)\n",
    b'"', b"dense<", b"!tt.ptr<",
)  # fmt: skip


_HOSTILE_WORDS = (
    b"tensordesc<fp16[8,__import__('os').system('touch /tmp/kinspect-fuzz-canary')]>",
    b"../outside.txt", b"/etc/passwd", b"k.s::k", b"\\u0000", b"-", b"--output=x", b"*fp32:16",
)  # fmt: skip


def _of(name: str) -> Callable[[], Sequence[Files]]:
    @functools.cache
    def found() -> Sequence[Files]:
        return seeds.SEEDS[name]()

    return found


def _recorded(name: str) -> FuzzedReader:
    return FuzzedReader(
        name, _recording, _of(name), _RECORDED, (b"KERNEL_DISPATCH", b"Agent 4"), special=0.1
    )


READERS: tuple[FuzzedReader, ...] = (
    FuzzedReader("asm", _target, _of("asm"), _TEXT, _ASM_WORDS, special=0.1),
    FuzzedReader("named", _named, _of("named"), _TEXT, _HOSTILE_WORDS, special=0.9),
    FuzzedReader("code_object", _target, _of("code_object"), {"": "bytes"}, special=0.1),
    FuzzedReader("elf", _elf, _of("code_object"), {"": "bytes"}),
    FuzzedReader("bundle", _elf, _of("bundle"), {"": "bytes"}),
    FuzzedReader("ttgir", _ttgir, _of("ttgir"), _TEXT, _MLIR_WORDS),
    FuzzedReader("ttir", _ttir, _of("ttir"), _TEXT, _MLIR_WORDS),
    FuzzedReader("folder", _folder, _of("folder"), {".json": "json", "": "text"}, special=0.1),
    FuzzedReader("report", _target, _of("report"), {"": "json"}, special=0.1),
    FuzzedReader("archive", _target, _of("archive"), {"": "zip"}, special=0.1),
    FuzzedReader("kitrace", _trace, _of("kitrace"), {"": "jsonl"}, special=0.1),
    FuzzedReader(
        "inductor", _inductor, _of("inductor"), _TEXT, (b"@triton_heuristics.pointwise(", b"'''")
    ),
    FuzzedReader(
        "cases", _case_file, _of("cases"), _TEXT, (b"KINSPECT_CASES", b"# kinspect: ignore[KI001]")
    ),
    FuzzedReader(
        "pack",
        _lint,
        _of("pack"),
        {"": "yaml"},
        (b"extends:", b"when:", b"loop.", b"evidence:"),
        special=0.1,
    ),
    FuzzedReader("baseline", _lint, _of("baseline"), {"": "json"}, special=0.1),
    FuzzedReader(
        "settings",
        _lint,
        _of("settings"),
        _TEXT,
        (b"[[tool.kinspect.kernel]]\n", b"a." * 60, b"budget = {"),
        special=0.1,
    ),
    *map(
        _recorded,
        (
            "rocprof_csv",
            "rocprof_older_csv",
            "rocprof_json",
            "rocpd",
            "rocprof_v1",
            "torch",
            "att",
            "compute",
            "proton",
        ),
    ),
    FuzzedReader(
        "fault",
        _fault,
        _of("fault"),
        _TEXT,
        (b"wave_1: pc=0x0 ", b"code object: ", b"loaded at: ["),
        special=0.1,
    ),
    FuzzedReader(
        "gemm_sizes",
        _sizes,
        _of("gemm_sizes"),
        {".yaml": "yaml", "": "text"},
        (b"1:2:3", b"- {M: "),
    ),
    FuzzedReader("metadata", _metadata, _of("metadata"), {"": "yaml"}),
    FuzzedReader(
        "note",
        _note,
        _of("note"),
        {"": "bytes"},
        (b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\x91"),
    ),
    FuzzedReader(
        "mcp", _mcp, _of("mcp"), {".json": "json", "": "text"}, _HOSTILE_WORDS, special=0.1
    ),
    FuzzedReader(
        "emulate", _emulate, _of("emulate"), {".json": "json", "": "text"}, _ASM_WORDS, special=0.1
    ),
    FuzzedReader(
        "time", _timed, _of("time"), {".json": "json", "": "text"}, _TIMED_WORDS, special=0.02
    ),
    FuzzedReader("history", _history, _of("history"), {"": "sqlite"}),
    FuzzedReader("ledger", _ledger, _of("ledger"), {"": "json"}),
)
