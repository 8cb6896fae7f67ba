"""What is executed of a target or recording: nothing but of .py targets. Hostile files try.

Each attack would leave a file of its own in a folder of canaries. That the attacks are ones is
shown by those that do run where the user trusts the trace.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import kinspect
import pytest
from kinspect.inspector.api.mcp_server import Tools
from kinspect.inspector.base.errors import KinspectError
from kinspect.inspector.capture.options import CaptureOptions, CapturePlan
from kinspect.inspector.capture.records import CaptureEnd, CaptureOutcome
from kinspect.inspector.capture.resolving import resolve
from kinspect.inspector.capture.script import capture_file
from kinspect.inspector.capture.trace import read_trace
from kinspect.inspector.cli.main import main
from kinspect.inspector.compile.worker import Worker
from kinspect.inspector.guest import server
from kinspect.inspector.guest.parsed.building import KernelBuilder
from kinspect.inspector.guest.parsed.guard import Guard
from kinspect.inspector.guest.parsed.library import RefusedError
from kinspect.inspector.guest.record.kernel_source import content_hash
from kinspect.inspector.guest.without_files import check_assembly, check_object
from kinspect.inspector.model import ErrorRecord, Variant
from kinspect.inspector.model.recording import MANIFEST
from kinspect.inspector.pipeline.recording_input import is_recording
from kinspect.inspector.profile import reading
from profile_files import program, write_results

triton = pytest.importorskip("triton")
pytestmark = pytest.mark.xdist_group("execution")

ARCH = "gfx942"
SMALL = Path(__file__).parent / "data" / "small_gfx942.s"
KINSPECT = Path(sys.executable).with_name("kinspect")
RUN = "__import__('os').system('touch {canary}')"
LANGUAGE_MODULE = "triton.language"
LANGUAGE = {"tl": {"module": "triton.language"}, "triton": {"module": "triton"}}


@dataclass(frozen=True)
class Attack:
    """A kernel of a trace that tries to run something.

    Args:
        body: its text after `def k(x_ptr, N: tl.constexpr):`, or the whole text where it has a def.
        names: values of its globals, as `guest/record/kernel_source.py` says.
        specialization: fields of its specialisation that differ.
        source: fields of its function that differ.
        said: what the error names.
    """

    body: str
    names: Mapping[str, Any] | None = None
    specialization: Mapping[str, Any] | None = None
    source: Mapping[str, Any] | None = None
    said: str = ""


def object_of(module: str, qualname: str) -> dict[str, Any]:
    return {"object": {"module": module, "qualname": qualname, "file": None}}


HOSTILE = "helpers.py"
ATTACKS: Mapping[str, Attack] = {
    "import in a print": Attack(f"tl.static_print({RUN})", said="__import__"),
    "import in an assertion": Attack(f"tl.static_assert({RUN} == 0)", said="__import__"),
    "modules of a module": Attack(
        "tl.core.knobs.os.system('touch {canary}')", said="the module triton.knobs"
    ),
    "modules of a module, statically": Attack(
        "tl.static_print(tl.core.knobs.subprocess.getoutput('touch {canary}'))",
        said="the module triton.knobs",
    ),
    "modules of the runtime": Attack(
        "triton.runtime.build.subprocess.getoutput('touch {canary}')", said="triton.runtime"
    ),
    "subclasses": Attack("n = ().__class__.__base__.__subclasses__()", said="__subclasses__"),
    "getattr": Attack("n = getattr(getattr(tl, '__bu' + 'iltins__'), 'eval')", said="__builtins__"),
    "hasattr": Attack("n = hasattr(tl, '__dict__')", said="__dict__"),
    "text that reaches": Attack("n = '{{0.__class__}}'.format(tl)", said="format"),
    "a print to a file": Attack("tl.static_print('x', file=tl)", said="file"),
    "parts of a function": Attack(
        "getattr(k_0, 'fn')()", names={"k_0": {"jitted": 0}}, said="fn of"
    ),
    "parts of a function, by a dot": Attack(
        "n = k_0.fn", names={"k_0": {"jitted": 0}}, said="fn of"
    ),
    "modules loaded": Attack(
        "tl.extra.modules.pop('triton.compiler.code_generator')", said="modules of the module"
    ),
    "modules loaded, by a text": Attack("n = getattr(tl.extra, 'modules')", said="modules of"),
    "the path of a module's module": Attack(
        "n = p.insert(0, '/tmp')",
        names={"p": {"library": {"module": LANGUAGE_MODULE, "qualname": "core.knobs.os.sys.path"}}},
        said="not part of a language",
    ),
    "a call of the library in a value": Attack(
        "n = V",
        names={
            "V": {
                "value": {
                    "constexpr": {
                        "namedtuple": {
                            "module": LANGUAGE_MODULE,
                            "qualname": "block_type",
                            "file": None,
                        },
                        "items": [1, 2],
                    }
                }
            }
        },
        said="no such class",
    ),
    "a method of a list": Attack(
        "n = L.pop()", names={"L": {"value": {"constexpr": {"list": [1]}}}}, said="list.pop"
    ),
    # Triton calls `parse`, `signature.bind` and more of what it takes for a kernel.
    "a tuple for a kernel": Attack(
        "tl.reduce(tl.arange(0, 4), 0, F)",
        names={
            "F": {
                "value": {
                    "constexpr": {
                        "namedtuple": {
                            "module": "m",
                            "qualname": "F",
                            "file": None,
                            "fields": ["signature", "parse"],
                        },
                        "items": [1, 2],
                    }
                }
            }
        },
        said="as a function",
    ),
    "state of a library": Attack(
        "n = p.pop('triton.compiler.code_generator')",
        names={"p": {"library": {"module": f"{LANGUAGE_MODULE}.extra", "qualname": "modules"}}},
        said="not a constant",
    ),
    "a function of torch in a module": Attack(
        "n = m.save",
        names={
            "m": {
                "members": {"save": {"library": {"module": "torch", "qualname": "save"}}},
                "name": "m",
            }
        },
        said="save",
    ),
    "a module that a library's function asks": Attack(
        "tl.pointer_type(tl.float32).to_ir(tl)", said="the attribute to_ir"
    ),
    "a module in a with": Attack("with tl.zeros((N,), tl): pass", said="as an argument"),
    "a builtin that the trace binds": Attack(
        "n = getattr(tl, 'float32')", names={"getattr": {"value": 1}}, said="the name getattr"
    ),
    "a module as an argument": Attack("n = tl.zeros((N,), tl)", said="as an argument"),
    "a member that Python calls": Attack(
        "n = m.x",
        names={
            "m": {
                "members": {"__getattr__": {"library": {"module": "torch", "qualname": "float16"}}},
                "name": "m",
            }
        },
        said="__getattr__",
    ),
    "state of a class": Attack("n = tl.dtype.SINT_TYPES.append(1)", said="SINT_TYPES of"),
    "what a tuple contains": Attack("n = len((tl.core.knobs,))", said="the module triton.knobs"),
    "a type that is evaluated": Attack(
        'n = tl.str_to_ty("tensordesc<fp16[8,8],' + RUN + '>", None)', said="str_to_ty"
    ),
    "an argument type that is evaluated": Attack(
        "tl.store(x_ptr, 1.0)",
        specialization={"signature": {"x_ptr": f"tensordesc<fp16[8,8],{RUN}>", "N": "constexpr"}},
        said="tensordesc",
    ),
    "open": Attack("open('{canary}', 'w')", said="open is not defined"),
    "a builtin as a global": Attack(
        'eval("' + RUN + '")',
        names={"eval": {"library": {"module": "builtins", "qualname": "eval"}}},
        said="builtins",
    ),
    "a module as a global": Attack(
        "os.system('touch {canary}')", names={"os": {"module": "os"}}, said="os"
    ),
    "a module of data that holds one": Attack(
        "mine.os.system('touch {canary}')",
        names={"mine": {"members": {"os": {"module": "os"}}, "name": "triton.language"}},
        said="os",
    ),
    "what a library's module holds": Attack(
        "f('touch {canary}')",
        names={"f": {"library": {"module": "triton.language", "qualname": "core.knobs.os.system"}}},
        said="not part of a language",
    ),
    "a function as a value": Attack(
        "f('touch {canary}')", names={"f": {"value": object_of("os", "system")}}, said="system"
    ),
    "a constant of a function": Attack(
        "f('touch {canary}')",
        names={"f": {"value": {"constexpr": object_of("os", "system")}}},
        said="system",
    ),
    "a function as a constant": Attack(
        "N('touch {canary}')",
        specialization={"constexprs": [[[1], object_of("os", "system")]]},
        said="os: system",
    ),
    "a class of named tuples that is none": Attack(
        "n = N",
        specialization={
            "constexprs": [
                [
                    [1],
                    {
                        "namedtuple": {"module": "os", "qualname": "system", "file": None},
                        "items": ["touch {canary}"],
                    },
                ]
            ]
        },
        said="os: system",
    ),
    "fields that are code": Attack(
        "n = N",
        specialization={
            "constexprs": [
                [
                    [1],
                    {
                        "namedtuple": {
                            "module": "m",
                            "qualname": "T",
                            "file": None,
                            "fields": ["x=" + RUN],
                        },
                        "items": [1],
                    },
                ]
            ]
        },
    ),
    "a dtype that is none": Attack(
        "n = N('{canary}')",
        specialization={"constexprs": [[[1], {"torch": "load"}]]},
        said="torch.load",
    ),
    "a default": Attack(f"def k(x_ptr, N: tl.constexpr, D={RUN}):\n    n = D\n", said="__import__"),
    "a default of a helper": Attack(
        "def k(x_ptr, N: tl.constexpr, D=subprocess.getoutput('touch {canary}')):\n"
        "    if N > 1:\n        k(x_ptr, N - 1)\n    n = D\n",
        specialization={
            "signature": {"x_ptr": "*fp32", "N": "constexpr", "D": "constexpr"},
            "constexprs": [[[1], 4], [[2], 4]],
        },
        names={"k_a_default_of_a_helper": {"jitted": 0}, "subprocess": {"module": "subprocess"}},
        said="the default value of D",
    ),
    "an annotation": Attack(f"def k(x_ptr: {RUN}, N: tl.constexpr):\n    n = y\n"),
    "a decorator": Attack(f"@{RUN}\ndef k(x_ptr, N: tl.constexpr):\n    n = y\n"),
    "a return annotation": Attack(f"def k(x_ptr, N: tl.constexpr) -> {RUN}:\n    n = y\n"),
    "statements after it": Attack(
        f"def k(x_ptr, N: tl.constexpr):\n    pass\n{RUN}\n", said="not one function"
    ),
    "a function inside": Attack(f"def f():\n        {RUN}\n    f()"),
    "lambda": Attack(f"(lambda: {RUN})()"),
    "a comprehension": Attack(f"n = [{RUN} for i in (1, 2)]", said="__import__"),
    "with": Attack("with tl.core.knobs.os.popen('touch {canary}'):\n        pass"),
    "an f-string": Attack("n = f'{{tl.core.knobs.os}}'", said="the module triton.knobs"),
    "the function of a kernel": Attack("k.fn()", names={"k": {"jitted": 0}}),
    "the launch of a kernel": Attack("k[(1,)](x_ptr, N)", names={"k": {"jitted": 0}}),
    "a method of a class": Attack("n = tl.tensor.mro()", said="mro"),
    "an argument of the generator's": Attack("tl.sum(x_ptr, _generator=tl)", said="_generator"),
    "a function of the program's": Attack(
        "n = f(1)", names={"f": {"host": "helpers.py:3: the function f"}}, said="helpers.py:3"
    ),
    "a file that is not the recorded one": Attack(
        "tl.store(x_ptr, 1.0)", source={"text": "def k(x_ptr, N):\n    x = 2\n"}, said="hash"
    ),
}
HONEST = "tl.store(x_ptr, 1.0)"


def kernel_name(name: str) -> str:
    return "k_" + "".join(c if c.isalnum() else "_" for c in name)


def text_of(name: str, attack: Attack, canary: Path) -> str:
    body = attack.body.replace("{canary}", str(canary)).replace("{{", "{").replace("}}", "}")
    if "def k(" not in body:
        body = f"def k(x_ptr, N: tl.constexpr):\n    {body}\n"
    return body.replace("def k(", f"def {kernel_name(name)}(").replace(
        " k(", f" {kernel_name(name)}("
    )


def filled(data: Any, canary: Path) -> Any:
    text = json.dumps(data).replace("{canary}", str(canary))
    return json.loads(text)


def specialization(name: str, attack: Attack, folder: Path) -> list[dict[str, Any]]:
    """The lines of a trace that hold an attack, with hashes as a recorder would write them."""
    canary = folder / "canaries" / kernel_name(name)
    text, qualname = text_of(name, attack, canary), kernel_name(name)
    function = {
        "module": "program",
        "qualname": qualname,
        "file": str(folder / "program.py"),
        "line": 1,
        "column": 0,
        "text": text,
        "noinline": False,
        "defaults": {},
        "names": {**LANGUAGE, **filled(attack.names or {}, canary)},
    }
    identity = content_hash([function])
    source = text[text.index("def k") :]
    kernel = {
        "module": "program",
        "qualname": qualname,
        "file": function["file"],
        "line": 1,
        "sha256": hashlib.sha256(f"{qualname}\n{source}".encode()).hexdigest(),
        "gluon": False,
        "source": identity,
    }
    function.update(attack.source or {})
    record = {
        "id": hashlib.sha256(name.encode()).hexdigest()[:16],
        "kernel": kernel,
        "signature": {"x_ptr": "*fp32", "N": "constexpr"},
        "constexprs": [[[1], 4]],
        "attrs": [],
        "options": {"num_warps": 4, "num_stages": 2},
        "asked": {},
        "target": {"backend": "cuda", "arch": "90", "warp_size": 32},
        "triton": triton.__version__,
        "via": "launch",
        "storages": None,
        "call_site": None,
        "tuning": None,
        "compiled": True,
        "launches": 1,
        **filled(attack.specialization or {}, canary),
    }
    return [
        {"source": {"id": identity, "functions": [function]}},
        {"specialization": record},
    ]


def write_trace(path: Path, lines: list[dict[str, Any]], version: int = 2) -> None:
    head = {"schema_version": version, "kinspect": "0", "command": [], "cwd": "/", "status": 0}
    process = {
        "schema_version": version,
        "pid": 1,
        "parent": 0,
        "argv": [],
        "cwd": "/",
        "executable": "python",
        "python": "3",
        "triton": triton.__version__,
        "torch": None,
        "sys_path": [str(path.parent)],
    }
    count = sum("specialization" in line for line in lines)
    end = {"end": {"specializations": count}}
    records = [{"trace": head}, {"process": process}, *lines, end]
    path.write_text("".join(json.dumps(one) + "\n" for one in records))
    assert not read_trace(path).notes


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with Worker() as one:
        yield one


def capture(
    worker: Worker, path: Path, mode: str, trust: bool = False
) -> tuple[list[Variant], list[ErrorRecord]]:
    scratch = path.parent / f"scratch-{path.stem}-{trust}"
    scratch.mkdir()
    options = CaptureOptions(trust_trace=trust)
    plan = CapturePlan(path, mode, (ARCH,), {ARCH: {"arch": ARCH}}, scratch, options=options)
    (ended,) = [item for item in capture_file(worker, plan) if isinstance(item, CaptureEnd)]
    return list(ended.variants), list(ended.errors)


def canaries(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "canaries").iterdir())


# ------------------------------------------------------------------------------------- traces


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    one = tmp_path_factory.mktemp("execution")
    (one / "canaries").mkdir()
    return one


@pytest.fixture(scope="module")
def replayed(folder: Path, worker: Worker) -> tuple[list[Variant], list[ErrorRecord]]:
    """All attacks in one trace, with an honest kernel before and behind them."""
    path = folder / "attacks.kitrace"
    attacks = {"honest": Attack(HONEST), **ATTACKS, "honest too": Attack(HONEST)}
    lines = [line for name, one in attacks.items() for line in specialization(name, one, folder)]
    write_trace(path, lines)
    return capture(worker, path, "trace")


def test_honest_kernels_beside_hostile_ones_are_compiled(
    replayed: tuple[list[Variant], list[ErrorRecord]],
) -> None:
    variants, errors = replayed
    assert {v.kernel for v in variants} == {"k_honest", "k_honest_too"}
    assert {e.kernel for e in errors} == {kernel_name(name) for name in ATTACKS}


@pytest.mark.parametrize("name", ATTACKS)
def test_no_kernel_of_a_trace_runs_anything(
    folder: Path, replayed: tuple[list[Variant], list[ErrorRecord]], name: str
) -> None:
    assert kernel_name(name) not in canaries(folder)
    (error,) = (e for e in replayed[1] if e.kernel == kernel_name(name))
    assert ATTACKS[name].said in error.message
    assert error.hint
    assert "\n" not in error.message + error.hint


class _Sent:
    """A channel that keeps what it is sent, of a host that says nothing."""

    stopped = False

    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []
        self.requests_fd, self._host = os.pipe()

    def send(self, message: dict[str, Any]) -> None:
        self.records.append(message["record"])

    def close(self) -> None:
        os.close(self.requests_fd)
        os.close(self._host)


@pytest.mark.parametrize("is_foreign", [True, False])
def test_records_of_a_strangers_kernels_ask_for_nothing(
    is_foreign: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who got to run code where they are lowered had the server copy files to any place."""
    (tmp_path / "from").write_text("x")
    asked = {"retry": {"from": str(tmp_path / "from"), "copy": "canary"}}
    mode = ModuleType("kinspect.inspector.guest.made_up_mode")
    mode.capture = lambda request, emit: [  # type: ignore[attr-defined]
        emit({"generated": {"path": "/etc/passwd", "origin": {}}}),
        emit({"asked": [["q", "f", 1]]}),
        emit({"note": "kept", "late": True}),
        emit(asked),
    ]
    monkeypatch.setitem(sys.modules, mode.__name__, mode)
    monkeypatch.setattr(server, "MAX_RUNS", 2)
    sent: Any = _Sent()
    (tmp_path / "cwd").mkdir()
    request = {
        "folder": str(tmp_path),
        "cwd": str(tmp_path / "cwd"),
        "path": "t.kitrace",
        "time_limit": 20,
        "deadline": time.monotonic() + 20,
        "finished": [],
        "readable": [],
        "is_foreign": is_foreign,
    }
    capture = server.Capturing(sent, request)
    capture._repeat("made_up_mode", request, "")
    assert (tmp_path / "cwd" / "canary").exists() is not is_foreign
    assert bool(capture._generated or capture._questions or capture._out_of_time) is not is_foreign
    assert [r["note"] for r in sent.records if "note" in r][:1] == ["kept"]
    sent.close()


def test_a_strangers_description_of_a_kernel_is_held_to_types(
    replayed: tuple[list[Variant], list[ErrorRecord]], tmp_path: Path
) -> None:
    plan = CapturePlan(tmp_path / "t.kitrace", "trace", (ARCH,), {ARCH: {"arch": ARCH}}, tmp_path)
    honest = {
        "kernel": "k",
        "arch": ARCH,
        "wave_size": 64,
        "ttir": "module {}",
        "options": {},
        "signature": {},
        "constexprs": {},
        "attrs": {},
        "qualname": "k",
        "case": None,
    }
    outcome = CaptureOutcome(plan)
    assert outcome.add({"variant": honest}) is not None
    for changed in ({"ttir": 7}, {"arch": "gfx1100"}, {"stage": "llir"}, {"options": "x"}):
        assert outcome.add({"variant": {**honest, **changed}}) is None
    # What was run has no place in it: contents of memory, inflated, would have any size.
    memory = {"address": 0, "size": 1 << 40, "dtype": "u8", "contents": "eJw="}
    passed = {"parameters": [], "memories": [memory]}
    (with_passed,) = filter(None, [outcome.add({"variant": {**honest, "passed": passed}})])
    assert with_passed.passed is None
    damaged: list[dict[str, Any]] = [
        {"variant": 5},
        {"variant": {**honest, "key": ["k"]}},
        {"error": {}},
        {"error": {"stage": {}, "message": {}, "hint": 5, "kernel": 1, "case": None, "arch": 2}},
        {"note": {}},
        {"launches": 5},
        {"launches": {"k": {"count": "x", "grids": [5]}}},
        {"begin": 1},
    ]
    for record in damaged:
        assert outcome.add(record) is None
    end = outcome.end()
    assert len(end.variants) == 2
    assert not end.notes
    assert all("description is damaged" in error.message for error in end.errors)
    assert len(end.errors) >= 3


def test_a_trace_holds_no_function_of_the_library() -> None:
    (line, _) = specialization("honest", Attack(HONEST), Path("/"))
    (function,) = line["source"]["functions"]
    builder = KernelBuilder(Guard(), lambda value: value)
    assert builder.build([function])
    with pytest.raises(RefusedError, match="which is in the trace"):
        builder.build([{**function, "module": "triton.language.extra.evil"}])


def test_nothing_that_a_kernel_names_is_looked_up_for_its_hash() -> None:
    """Triton hashes what is called with all that it names, dead code included."""
    (line, _) = specialization("honest", Attack(HONEST), Path("/"))
    (function,) = line["source"]["functions"]
    text = "def k(x_ptr, N: tl.constexpr):\n    return\n    tl.core.knobs.os.environ.get\n"
    names = {"tl": {"module": LANGUAGE_MODULE}}
    builder = KernelBuilder(Guard(), lambda value: value)
    source = {**function, "text": text, "qualname": "k", "names": names}
    one, other = (builder.build([source])[0] for _ in range(2))
    assert one.cache_key.startswith("kernel of data ")
    assert one.cache_key != other.cache_key


def test_the_text_that_is_checked_is_the_one_that_triton_compiles() -> None:
    """Triton cuts a function's text anew: here out of the text of a decorator."""
    (line, _) = specialization("honest", Attack(HONEST), Path("/"))
    (function,) = line["source"]["functions"]
    text = (
        "@deco('''\ndef k(x_ptr, N):\n    tl.static_print(tl.__dict__)\n    ''')\n"
        "def k(x_ptr, N: tl.constexpr):\n    pass  # '''\n"
    )
    builder = KernelBuilder(Guard(), lambda value: value)
    with pytest.raises(RefusedError, match="Triton reads otherwise"):
        builder.build([{**function, "text": text, "qualname": "k"}])


GREEDY = {
    "shift": "n: tl.constexpr = 1 << (N << 36)",
    "power": "n: tl.constexpr = (N + 7) ** (10 ** 11)",
    "repeated tuple": "n: tl.constexpr = (N,) * (1 << 33)",
    "unrolled for ever": "for i in tl.static_range(0, 1 << 40): tl.store(x_ptr + i, 1.0)",
}


def test_kernels_that_take_too_much_end_alone(
    tmp_path: Path, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KINSPECT_READ_SECONDS", "6")
    attacks = {name: Attack(body) for name, body in GREEDY.items()}
    attacks = {"honest": Attack(HONEST), **attacks, "honest too": Attack(HONEST)}
    lines = [line for name, one in attacks.items() for line in specialization(name, one, tmp_path)]
    write_trace(tmp_path / "greedy.kitrace", lines)
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    variants, errors = capture(worker, tmp_path / "greedy.kitrace", "trace")
    assert {v.kernel for v in variants} == {"k_honest", "k_honest_too"}
    assert len(errors) == len(GREEDY)
    assert any("did not finish within" in error.message for error in errors)
    assert max(before, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss) < 2 << 20  # KiB


MODULE = """
import os
{run}
import triton, triton.language as tl
from beside import helper

@triton.jit
def k(x_ptr, N: tl.constexpr, D={run}):
    tl.store(x_ptr, helper(1.0))
"""
BESIDE = """
import os, triton
{run}
@triton.jit
def helper(x):
    return x
"""


@dataclass(frozen=True)
class Program:
    """A trace of version 1 beside the hostile files that it names."""

    folder: Path

    @property
    def trace(self) -> Path:
        return self.folder / "program.kitrace"

    def write(self, text: bool) -> None:
        (self.folder / "canaries").mkdir()
        default = self.run("default")
        module = MODULE.replace("{run}", self.run("module"), 1).replace("{run}", default)
        (self.folder / "program.py").write_text(module)
        (self.folder / "beside.py").write_text(BESIDE.format(run=self.run("beside")))
        helper = "helper\ndef helper(x):\n    return x\n"
        kernel = "k\n" + module[module.index("def k(") :]
        record = specialization("honest", Attack(HONEST), self.folder)[1]
        record["specialization"]["kernel"] = {
            "module": "program",
            "qualname": "k",
            "file": str(self.folder / ("gone.py" if text else "program.py")),
            "line": 7,
            "sha256": hashlib.sha256("\0".join(sorted([helper, kernel])).encode()).hexdigest(),
            "gluon": False,
            "text": module if text else None,
        }
        record["specialization"]["signature"]["D"] = "constexpr"
        record["specialization"]["constexprs"].append([[2], 4])
        write_trace(self.trace, [record], version=1)

    def run(self, name: str) -> str:
        return f"os.system('touch {self.folder}/canaries/{name}')"

    def change(self, **fields: Any) -> None:
        lines = self.trace.read_text().splitlines()
        records = [json.loads(line) for line in lines]
        records[2]["specialization"]["kernel"].update(fields)
        self.trace.write_text("".join(json.dumps(one) + "\n" for one in records))


@pytest.mark.parametrize("text", [False, True], ids=["files", "text"])
def test_version_1_is_read_without_running_the_files_it_names(
    tmp_path: Path, worker: Worker, text: bool
) -> None:
    program = Program(tmp_path)
    program.write(text)
    (variant,), errors = capture(worker, program.trace, "trace")
    assert not errors
    assert variant.kernel == "k"
    assert "tt.store" in variant.ttir
    assert not canaries(tmp_path)


def test_hashes_are_verified_before_anything(tmp_path: Path, worker: Worker) -> None:
    program = Program(tmp_path)
    program.write(text=False)
    program.change(sha256="0" * 64)
    none, (error,) = capture(worker, program.trace, "trace")
    assert not none
    assert "has changed since it was recorded" in error.message
    assert not canaries(tmp_path)


def test_what_cannot_be_had_is_run_only_for_traces_that_are_trusted(
    tmp_path: Path, worker: Worker
) -> None:
    """The control: what the other tests forbid does leave its mark once it is allowed."""
    program = Program(tmp_path)
    program.write(text=False)
    path = tmp_path / "program.py"
    path.write_text(path.read_text().replace("helper(1.0)", "helper(1.0) + F(N)") + FUNCTION)
    kernel = path.read_text()
    start, end = kernel.index("def k("), kernel.index("\n@triton.constexpr_function")
    helper = "helper\ndef helper(x):\n    return x\n"
    both = sorted([helper, "k\n" + kernel[start:end]])
    program.change(sha256=hashlib.sha256("\0".join(both).encode()).hexdigest())
    none, (error,) = capture(worker, program.trace, "trace")
    assert not none
    assert f"{path}:1" in error.message  # the line of F
    assert "def F(n)" in error.message
    assert f"--trust-trace imports program ({path})" in error.hint
    assert not canaries(tmp_path)
    (variant,), errors = capture(worker, program.trace, "trace", trust=True)
    assert not errors
    assert variant.kernel == "k"
    assert canaries(tmp_path) == ["beside", "default", "module"]


FUNCTION = """
@triton.constexpr_function
def F(n):
    return n
"""


# ---------------------------------------------------------------------------------- Inductor's


INDUCTOR = """
import triton
import triton.language as tl
from torch._inductor.runtime import triton_helpers, triton_heuristics
from torch._inductor.runtime.hints import DeviceProperties
{module}

@triton_heuristics.template(
    num_warps=4, num_stages=1, {metadata}
    triton_meta={{'signature': {{'x_ptr': {type}, 'N': 'constexpr'}}, 'constants': {{'N': {value}}},
                 'device': DeviceProperties(type='hip', index=0, cc='gfx942'),
                 'configs': [{{}}]}},
    inductor_meta={{'kernel_name': 'kernel'}},
)
@triton.jit
def kernel(x_ptr, N: tl.constexpr{default}):
    tl.store(x_ptr, 1.0)
    {body}
"""
PLAIN = {"module": "", "metadata": "", "type": "'*fp32'", "value": "4", "default": "", "body": ""}
RUNS = "__import__('os').system('touch {canary}')"
GETS = "subprocess.getoutput('touch {canary}')"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"module": RUNS}, None),
        ({"module": f"X = {RUNS}"}, None),
        ({"module": f"X = tl.constexpr({GETS})", "body": "n = X"}, "subprocess.getoutput"),
        ({"module": "import evil"}, None),
        ({"module": "from evil import helper", "body": "n = helper(1)"}, "from evil import"),
        ({"module": "import evil as triton_language", "body": "triton_language.f()"}, "evil"),
        ({"module": "import subprocess", "default": f", D={GETS}"}, "subprocess.getoutput"),
        ({"default": f" = {GETS}"}, None),
        ({"metadata": f"x={RUNS},"}, None),
        ({"metadata": f"x={GETS},"}, None),
        ({"value": "tl.core"}, None),
        ({"value": "tl.str_to_ty", "body": "n = N('x', None)"}, "str_to_ty"),
        ({"value": GETS}, "which only a run would know"),
        ({"type": f'"tensordesc<fp16[8,8],{RUNS}>"'}, "tensordesc"),
        ({"body": f"tl.static_print({RUNS})"}, "__import__"),
        ({"body": "tl.core.knobs.os.system('touch {canary}')"}, "the module triton.knobs"),
        ({"body": "triton.runtime.build.subprocess.getoutput('touch {canary}')"}, "triton.runtime"),
    ],
)
def test_nothing_of_inductors_files_is_run(
    tmp_path: Path, worker: Worker, changes: dict[str, str], said: str | None
) -> None:
    (tmp_path / "canaries").mkdir()
    canary = str(tmp_path / "canaries" / "one")
    (tmp_path / "evil.py").write_text(RUNS.replace("{canary}", canary))
    path = tmp_path / "output_code.py"
    path.write_text(INDUCTOR.format(**{**PLAIN, **changes}).replace("{canary}", canary))
    variants, errors = capture(worker, path, "inductor")
    assert not canaries(tmp_path)
    if said is None:
        assert [v.kernel for v in variants] == ["kernel"] or errors
    else:
        (error,) = errors
        assert said in error.message
        assert not variants


def test_inductors_files_run_where_they_are_trusted(tmp_path: Path, worker: Worker) -> None:
    """The control for the tests above."""
    (tmp_path / "canaries").mkdir()
    changes = {"module": "import subprocess", "default": f", D={GETS}", "body": "n = D == ''"}
    text = INDUCTOR.format(**{**PLAIN, **changes})
    path = tmp_path / "output_code.py"
    path.write_text(text.replace("{canary}", str(tmp_path / "canaries" / "one")))
    none, (error,) = capture(worker, path, "inductor")
    assert not none
    assert "--trust-trace runs the module" in error.hint
    assert not canaries(tmp_path)
    capture(worker, path, "inductor", trust=True)
    assert canaries(tmp_path) == ["one"]


# ------------------------------------------------------------------------- every other kind


SHADOWS = ("triton", "torch", "json", "sitecustomize", "usercustomize", "conftest", "numpy")
TTIR = """module {
  tt.func public @k(%arg0: !tt.ptr<f32>) attributes {noinline = false} {
    %cst = arith.constant 1.000000e+00 : f32
    tt.store %arg0, %cst : !tt.ptr<f32>
    tt.return
  }
}
"""


def other_targets(folder: Path, run: str) -> dict[str, str]:
    """Files of every kind that is read, with text that would run something in each free place."""
    metadata = {
        "name": run,
        "shared": 0,
        "num_warps": 4,
        "extern_libs": [["ocml", f"{folder}/evil.bc"]],
        "target": {"backend": "hip", "arch": ARCH, "warp_size": 64},
        "schedule_hint": run,
        "llvm_fn_attrs": f"x={run}",
    }
    choice = {"XBLOCK": run, "num_warps": 4, "triton_cache_hash": "../../x"}
    graph = {"traceEvents": [], "command": run}
    return {
        "entry/k.ttir": TTIR,
        "entry/k.json": json.dumps(metadata),
        "entry/__init__.py": run,
        "report.json": json.dumps({"schema_version": 1, "tool": run, "kernels": [], **graph}),
        "x.kinspect": "PK\x03\x04" + run,
        "k.s": f'.include "{folder}/evil.s"\n; {run}\n',
        "torch_compile_debug/run/model/output_code.py": INDUCTOR.format(**PLAIN),
        "torch_compile_debug/run/model/output_code.best_config": json.dumps(choice),
        "torch_compile_debug/run/model/fx_graph_runnable.py": f"{run}\n@triton.jit\ndef k(): pass",
    }


def test_no_other_target_runs_anything_nor_what_lies_beside_it(tmp_path: Path) -> None:
    """With modules beside it, in the working folder, that Python would find by their names."""
    (tmp_path / "canaries").mkdir()
    run = f"__import__('os').system('touch {tmp_path}/canaries/one')"
    targets = other_targets(tmp_path, run)
    for name, text in targets.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        for shadow in SHADOWS:
            (path.parent / f"{shadow}.py").write_text(run)
    hostile = specialization("honest", Attack(HONEST), tmp_path)
    write_trace(tmp_path / "run.kitrace", hostile)
    names = ["entry/k.ttir", "report.json", "x.kinspect", "k.s", "torch_compile_debug/run/model"]
    environment = {**os.environ, "KINSPECT_CACHE_DIR": str(tmp_path / "cache")}
    for name in SHADOWS:  # what a folder's own modules would do if they were targets
        (tmp_path / "torch_compile_debug/run/model" / f"{name}.py").unlink()
    done = subprocess.run(
        [
            str(KINSPECT),
            "analyze",
            *names,
            "run.kitrace",
            "--arch",
            ARCH,
            "--format",
            "json",
            "--details",
        ],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    report = json.loads(done.stdout)
    assert {k["name"] for k in report["kernels"]} >= {"k", "k_honest", "kernel"}, done.stderr
    assert not canaries(tmp_path)


@pytest.mark.parametrize("name", ["run.kitrace", "r.json", "k.ttir", "k.txt", "script"])
def test_emulate_runs_python_scripts_alone(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line of JSON can be Python."""
    path = tmp_path / name
    path.write_text(f'{{"trace": [open("{tmp_path}/canary", "w"), 1]}}\n')
    assert main(["emulate", str(path)]) == 2
    assert "no Python script" in capsys.readouterr().err
    with pytest.raises(KinspectError, match="no Python script"):
        kinspect.emulate(path)
    assert not (tmp_path / "canary").exists()


@pytest.mark.parametrize("name", ["output_code.py", "c" + "ab2" * 17 + ".py"])
def test_what_a_generated_file_says_does_not_have_it_run(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(f"# KINSPECT_CASES\nopen({str(tmp_path / 'canary')!r}, 'w')\n")
    main(["analyze", str(path)])
    assert not (tmp_path / "canary").exists()


@pytest.mark.parametrize("module", ["kinspect", "kinspect.inspector.cli"])
def test_nothing_of_the_working_folder_is_imported_by_python_m(module: str, tmp_path: Path) -> None:
    (tmp_path / "k.s").write_text(SMALL.read_text())
    for shadow in {"click", "msgspec", "yaml", *sys.stdlib_module_names}:
        (tmp_path / f"{shadow}.py").write_text("open('canary', 'a').write(__name__)")
    for asked in (["-m", module], ["-X", "utf8=1", "-Wignore", "-Bm", module], [f"-m{module}"]):
        command = [sys.executable, *asked, "analyze", "k.s"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert not (tmp_path / "canary").exists(), (tmp_path / "canary").read_text()


@pytest.mark.parametrize("words", [("-m", "own"), ("-c", "import own", "-m", "kinspect")])
def test_the_path_of_who_imports_kinspect_stays(words: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("import kinspect, sys\nprint(sys.path[0])\n")
    command = [sys.executable, *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.strip() in ("", str(tmp_path)), done.stderr


# ------------------------------------------------------------------------------- recordings


def recorded(folder: Path, manifest: bool) -> tuple[Path, str]:
    """A profiler's run with hostile sources beside it and in its cache, and an honest entry there.

    Returns:
        Its folder, and the text that leaves a canary.
    """
    (folder / "canaries").mkdir()
    run, entry = folder / "run", folder / "run" / "triton" / "HASH"
    passes = run / "passes" / "trace"
    for one in (passes, entry):
        one.mkdir(parents=True)
    write_results(passes / "1_results.json", program())
    code = f"import os\nos.system('touch {folder}/canaries/one')\n"
    script = f"{code}import triton\n@triton.jit\ndef k(x):\n    pass\n"
    for place in (run, run / "triton", entry, passes):
        (place / "x.py").write_text(script)
    inductor = f"{INDUCTOR.format(**PLAIN)}\n{code}"
    (run / "triton" / "output_code.py").write_text(inductor)
    (run / "triton" / "stated.py").write_text(f"KINSPECT_CASES = []\n{script}")
    (entry / "small.amdgcn").write_text(SMALL.read_text())
    (folder / "outside.s").write_text(SMALL.read_text().replace("small", "secret"))
    (entry / "linked.amdgcn").symlink_to(folder / "outside.s")
    if manifest:
        record = {"name": "trace", "folder": "passes/trace", "argv": [], "status": "complete"}
        whole = {"command": ["x"], "cwd": "/", "kinspect": "0", "tool": "rocprofv3"}
        whole |= {"tool_version": None, "tool_path": "", "arch": None, "started": "", "ended": ""}
        (run / MANIFEST).write_text(json.dumps({**whole, "passes": [record]}))
    return run, script


@pytest.mark.parametrize("manifest", [False, True])
@pytest.mark.parametrize(
    "words",
    [
        ("profile", "import", "run", "--format", "json"),
        ("profile", "compare", "run", "run", "--format", "json"),
        ("profile", "export", "run", "-o", "out"),
        ("report", "run", "-o", "out"),
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_nothing_beside_a_recording_is_run(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    manifest: bool,
) -> None:
    run, _ = recorded(tmp_path, manifest)
    monkeypatch.chdir(tmp_path)
    status = main(list(words))
    assert not canaries(tmp_path)
    out, err = capfd.readouterr()
    written = out + (tmp_path / "out").read_text() if (tmp_path / "out").exists() else out
    assert "matmul_kernel" in written, "it was read"
    assert "secret" not in written
    if words[1] in ("import", "run"):
        assert '"name": "small"' in written or ">small" in written, "what was compiled is read"
        assert status == 2
        assert f"{run.name}/triton/x.py: " in err
        assert "linked.amdgcn: " in err


def test_passes_that_are_a_link_are_not_the_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Their folder would be a target, whose checkout data may name."""
    run, _ = recorded(tmp_path, manifest=True)
    (run / "passes").rename(tmp_path / "elsewhere")
    (run / "passes").symlink_to(tmp_path / "elsewhere")
    monkeypatch.chdir(tmp_path)
    assert main(["profile", "import", "run"]) == 2
    out, err = capfd.readouterr()
    assert "a link out of this run" in err
    assert "matmul_kernel" not in out


def test_a_folder_with_a_recording_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, _ = recorded(tmp_path, manifest=True)
    assert is_recording(run)
    with pytest.raises(KinspectError, match=r"holds both a recording \(.*\) and scripts"):
        is_recording(tmp_path)
    for script in tmp_path.rglob("*.py"):
        script.unlink()
    assert not is_recording(tmp_path), "runs below a project are those runs'"
    (run / MANIFEST).rename(run / "other.json")
    assert is_recording(tmp_path)
    (run / "passes").rename(run / ".hidden")
    assert is_recording(tmp_path)
    for path in tmp_path.rglob("*"):
        if path.is_symlink():
            path.unlink()
    files = sum(path.is_file() for path in tmp_path.rglob("*"))
    monkeypatch.setattr(reading, "_MOST_FILES", files - 1)
    assert not is_recording(tmp_path), "too many files with those of hidden folders"
    (run / ".hidden").rename(run / "passes")
    with pytest.raises(KinspectError, match=r"over .* files"):
        is_recording(tmp_path)
    monkeypatch.undo()
    (run / "passes" / "trace" / "1_results.json").unlink()
    assert not is_recording(tmp_path)


@pytest.mark.parametrize("words", [("analyze", "run"), ("lint", "."), ("analyze", "run/triton")])
def test_sources_in_the_folder_of_a_run_are_run_where_they_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    recorded(tmp_path, manifest=True)
    monkeypatch.chdir(tmp_path)
    assert main(list(words)) == 2
    assert not canaries(tmp_path)
    main(["analyze", "run/triton/x.py"])
    assert canaries(tmp_path) == ["one"]


def test_a_generated_file_without_kernels_counts_and_by_a_link(tmp_path: Path) -> None:
    """Its folder is Inductor's, and it is itself under another name."""
    sub = tmp_path / "found" / "sub"
    sub.mkdir(parents=True)
    code = "# AsyncCompile()\nimport triton\n@triton.jit\ndef k(x):\n    pass\n"
    (sub / "output_code.py").write_text(code)
    (sub / "x.py").write_text(code.replace("AsyncCompile()", ""))
    (tmp_path / "found" / "link.py").symlink_to("sub/output_code.py")
    found = {target.path.name: target.fault for target in resolve(str(tmp_path / "found"))}
    assert found.keys() == {"x.py", "link.py"}
    assert None not in found.values()


@pytest.mark.parametrize("name", ["proton.hatchet", "trace.otf2", "x.msgpack", "k.hsaco"])
def test_a_file_that_is_missing_is_no_module(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package, _, module = name.partition(".")
    (tmp_path / package).mkdir()
    (tmp_path / package / "__init__.py").touch()
    (tmp_path / package / f"{module}.py").write_text("import triton\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(KinspectError, match="no such file"):
        resolve(name)


@pytest.mark.parametrize(
    ("compiled", "beside"),
    [
        ("cache/" + "A2" * 26 + "/k.amdgcn", ("cache", "cache/" + "A2" * 26, "cache/other/deep")),
        ("me/triton/0/" + "A2" * 26 + "/k.amdgcn", ("me", "me/triton", "me/triton/0")),
        ("dump/" + "0f" * 32 + "/k.amdgcn", ("dump", "dump/" + "0f" * 32)),
        ("entry/k.amdgcn", ("entry",)),
        ("inductor/ab/output_code.py", ("inductor", "inductor/ab", "inductor/cd")),
        ("torch_compile_debug/run/output_code.py", ("torch_compile_debug", "torchinductor_me")),
    ],
)
def test_scripts_among_what_was_generated_are_not_run_with_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiled: str, beside: tuple[str, ...]
) -> None:
    (tmp_path / "canaries").mkdir()
    file = tmp_path / "found" / compiled
    for folder in (file.parent, *(tmp_path / "found" / name for name in beside)):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "x.py").write_text(f"import os\n@triton.jit\n{RUN}".replace("{canary}", "ran"))
    is_inductors = file.suffix == ".py"
    file.write_text(INDUCTOR.format(**PLAIN) if is_inductors else SMALL.read_text())
    if compiled.startswith("entry"):
        file.with_suffix(".json").write_text('{"shared": 0, "name": "k"}')
    monkeypatch.chdir(tmp_path)
    targets = resolve("found")
    scripts = [target for target in targets if target.path.name == "x.py"]
    assert len(scripts) == len({file.parent, *(tmp_path / "found" / name for name in beside)})
    for target in scripts:
        assert target.fault is not None
        assert target.fault.hint == "name the file itself to run it"
        assert resolve(str(target.path))[0].fault is None
    assert [target.fault for target in targets if target.path.name == file.name] == [None]


@pytest.mark.parametrize(
    "folder",
    ["torch_compile_debug/run", "torchinductor_me/k", "cache/" + "A2" * 26, "run/triton/HASH"],
)
@pytest.mark.parametrize("way", ["outside", "inside", "link", "linked file", "link inside"])
def test_a_folder_that_is_only_read_is_one_however_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, way: str
) -> None:
    place = tmp_path / folder
    place.mkdir(parents=True)
    (tmp_path / "run").mkdir(exist_ok=True)
    (tmp_path / "run" / MANIFEST).touch()
    (tmp_path / "other").mkdir()
    script = tmp_path / "other" / "x.py" if way == "link inside" else place / "x.py"
    script.write_text("import triton\n@triton.jit\ndef k(x): pass\n")
    named = {"outside": tmp_path / folder.partition("/")[0], "inside": Path()}.get(way)
    if way == "link":
        named = tmp_path / "elsewhere"
        named.symlink_to(place)
    elif way == "linked file":
        named = tmp_path / "elsewhere"
        named.mkdir()
        (named / "y.py").symlink_to(script)
    elif way == "link inside":
        (place / "y.py").symlink_to(script)
    monkeypatch.chdir(place)
    faults = [target.fault for target in resolve(str(named or place))]
    assert [fault is not None for fault in faults] == [True]
    monkeypatch.chdir(tmp_path / "other")
    script.replace("x.py")
    assert [target.fault for target in resolve(".")] == [None]


# ------------------------------------------------------------------------- texts of arguments


SIGNED = """
import triton, triton.language as tl
@triton.jit
def k(x, n, N: tl.constexpr):
    tl.store(x, 1.0)
"""
TYPE_THAT_RUNS = "tensordesc<fp16[8,8],{run}>"


@pytest.mark.parametrize(
    "signature",
    [
        TYPE_THAT_RUNS + ", i32, 4",
        "x=" + TYPE_THAT_RUNS + ", n=i32, N=4",
        "tensordesc<fp16[8],SwizzledSharedLayout({run})>, i32, 4",
    ],
)
@pytest.mark.parametrize("by_agent", [False, True])
def test_a_stated_signature_is_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, signature: str, by_agent: bool
) -> None:
    (tmp_path / "canaries").mkdir()
    (tmp_path / "k.py").write_text(SIGNED)
    monkeypatch.chdir(tmp_path)
    run = RUN.replace("{canary}", f"{tmp_path}/canaries/one")
    signature = signature.replace("{run}", run)
    if by_agent:
        with pytest.raises(KinspectError):
            Tools().analyze("k.py", signature=signature)
    else:
        assert main(["analyze", "k.py", "--signature", signature]) == 2
    assert not canaries(tmp_path)


@pytest.mark.parametrize(
    ("text", "is_refused"),
    [
        ('\t.section\t.rodata,"a",@progbits\n\t.fill 63, 4, 0xbf9f0000\nv_mov_b32 v0, v1\n', False),
        ('\t.section\t".note.GNU-stack","",@progbits\n.section .text\n', False),
        ('.loc 1 2 0 ; a.py\n.section x\n.incbin "/etc/passwd"\n', True),
        ('.section .deplibs,"MS",@llvm_dependent_libraries,1\n.asciz "/etc/passwd"\n', True),
        ('.section .x,"MS",@0x6fff4c04,1\n.asciz "/etc/passwd"\n', True),
        ('.pushsection .x,"",@1879002116\n', True),
    ],
)
def test_assembly_that_reads_files_is_not_assembled(text: str, is_refused: bool) -> None:
    with pytest.raises(ValueError, match="names files") if is_refused else nullcontext():
        check_assembly(text)


def test_sections_for_the_linker_are_refused() -> None:
    section = struct.Struct("<II56x")
    head = b"\x7fELF".ljust(0x28, b"\0") + struct.pack("<Q", 0x40)
    head = head.ljust(0x3A, b"\0") + struct.pack("<HH", section.size, 2) + b"\0\0"
    check_object(head + section.pack(1, 1) + section.pack(1, 0x6FFF4C03))
    with pytest.raises(ValueError, match="0x6fff4c04"):
        check_object(head + section.pack(1, 1) + section.pack(1, 0x6FFF4C04))


@pytest.mark.parametrize("name", ["kernel", "file"])
def test_no_name_carries_a_file_into_code(name: str, tmp_path: Path, worker: Worker) -> None:
    lines = r"q\0A.section x\0A.incbin \22/etc/hostname\22\0A.text\0A;"
    kernel, file = (f'@"{lines}"', "a.py") if name == "kernel" else ("@k", f"/a.py{lines}")
    (tmp_path / "k.ttir").write_text(
        f'#loc = loc("{file}":1:2)\nmodule {{\n  tt.func public {kernel}(%p: !tt.ptr<i32>) {{\n'
        "    %c = arith.constant 1 : i32 loc(#loc)\n    tt.store %p, %c : !tt.ptr<i32> loc(#loc)\n"
        "    tt.return loc(#loc)\n  } loc(#loc)\n} loc(#loc)\n"
    )
    done = subprocess.run(
        [KINSPECT, "k.ttir", "--format", "json", "--no-passes"],
        cwd=tmp_path, env={**os.environ, "KINSPECT_CACHE_DIR": str(tmp_path / "cache")},
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 2
    secret = Path("/etc/hostname").read_bytes().strip()
    assert not any(secret in path.read_bytes() for path in (tmp_path / "cache").rglob("*.hsaco"))
