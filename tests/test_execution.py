"""What is executed of a target: nothing but of .py targets. Hostile files of every kind try.

Each attack would leave a file of its own in a folder of canaries. That the attacks are ones is shown
by those that do run where the user trusts the trace.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from kinspect.inspector.capture.options import CaptureOptions
from kinspect.inspector.capture.script import Ended, Plan, capture_file
from kinspect.inspector.capture.trace import read_trace
from kinspect.inspector.compiler.worker import Worker
from kinspect.inspector.guest.record.contents import content_hash
from kinspect.inspector.model import ErrorRecord, Variant

triton = pytest.importorskip("triton")
pytestmark = pytest.mark.xdist_group("execution")

ARCH = "gfx942"
KINSPECT = Path(sys.executable).with_name("kinspect")
RUN = "__import__('os').system('touch {canary}')"
LANGUAGE = {"tl": {"module": "triton.language"}, "triton": {"module": "triton"}}


@dataclass(frozen=True)
class Attack:
    """A kernel of a trace that tries to run something.

    Args:
        body: its text after `def k(x_ptr, N: tl.constexpr):`, or the whole text where it has a def.
        names: values of its globals, as `guest/record/contents.py` says.
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
        "tl.core.os.system('touch {canary}')", names={"tl": {"module": "triton.language"}}
    ),
    "modules of the runtime": Attack(
        "triton.runtime.build.subprocess.getoutput('touch {canary}')", said="triton.runtime"
    ),
    "subclasses": Attack("n = ().__class__.__base__.__subclasses__()", said="__class__"),
    "getattr": Attack("n = getattr(getattr(tl, '__bu' + 'iltins__'), 'eval')", said="__builtins__"),
    "hasattr": Attack("n = hasattr(tl, '__dict__')", said="__dict__"),
    "text that reaches": Attack("n = '{{0.__class__}}'.format(tl)", said="format"),
    "a print to a file": Attack("tl.static_print('x', file=tl)", said="file"),
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
        "eval(\"" + RUN + "\")",
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
        names={"f": {"library": {"module": "triton.language", "qualname": "core.os.system"}}},
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
        said="torch.load" if shutil.which("true") else "",
    ),
    "a default": Attack(f"def k(x_ptr, N: tl.constexpr, D={RUN}):\n    n = D\n", said="argument"),
    "an annotation": Attack(f"def k(x_ptr: {RUN}, N: tl.constexpr):\n    n = y\n"),
    "a decorator": Attack(f"@{RUN}\ndef k(x_ptr, N: tl.constexpr):\n    n = y\n"),
    "a return annotation": Attack(f"def k(x_ptr, N: tl.constexpr) -> {RUN}:\n    n = y\n"),
    "statements after it": Attack(
        f"def k(x_ptr, N: tl.constexpr):\n    pass\n{RUN}\n", said="not one function"
    ),
    "a function inside": Attack(f"def f():\n        {RUN}\n    f()"),
    "lambda": Attack(f"(lambda: {RUN})()"),
    "a comprehension": Attack(f"n = [{RUN} for i in (1, 2)]", said="__import__"),
    "with": Attack(f"with tl.core.os.popen('touch {{canary}}'):\n        pass"),
    "an f-string": Attack(f"n = f'{{{{{RUN}}}}}'", said="__import__"),
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
    return body.replace("def k(", f"def {kernel_name(name)}(")


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
    plan = Plan(path, mode, (ARCH,), {ARCH: {"arch": ARCH}}, scratch, options=options)
    (ended,) = [item for item in capture_file(worker, plan) if isinstance(item, Ended)]
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
