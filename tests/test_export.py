"""`kinspect export`: plain Triton compiles the folder to the same instructions."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kinspect
import pytest
from kinspect.inspector.base.errors import KinspectError
from kinspect.inspector.cli.main import main
from kinspect.inspector.compile import reproducer
from kinspect.inspector.model import Variant

pytestmark = pytest.mark.usefixtures("shared_guests")

DATA = Path(__file__).parent / "data"
SCRIPT = """
import torch
import triton
import triton.language as tl

@triton.jit
def product(a, b, out, stride, BLOCK: tl.constexpr):
    rows, columns = tl.arange(0, BLOCK)[:, None], tl.arange(0, BLOCK)[None, :]
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for k in range(0, stride, BLOCK):
        left = tl.load(a + rows * stride + k + columns)
        total += tl.dot(left, tl.load(b + (k + rows) * stride + columns))
    tl.store(out + rows * stride + columns, total)

@triton.jit
def broken(x, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    value = tl.inline_asm_elementwise(
        "v_bogus_b32 $0, $1", "=v,v", [tl.load(x + at)], dtype=tl.float32, is_pure=True, pack=1)
    tl.store(x + at, value)

a = torch.empty(64, 256, device="cuda", dtype=torch.float16)
product[(1,)](a, a, a.float(), 256, BLOCK=32, num_warps=2, waves_per_eu=1)
"""
BROKEN = "broken[(1,)](a.float(), BLOCK=64)\n"
INSTRUCTION = re.compile(r"^\s+([a-z]+_\w+.*?)\s*(?:;.*)?$", re.M)


@pytest.fixture
def tool(tool_in_process: Callable[..., Any]) -> Callable[..., Any]:
    return tool_in_process


@pytest.fixture
def script(tmp_path: Path) -> Path:
    pytest.importorskip("triton")
    path = tmp_path / "product.py"
    path.write_text(SCRIPT)
    return path


def reproduced(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A run of the folder's script that cannot import kinspect."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("KINSPECT", "TRITON"))}
    environment |= {"PYTHONPATH": "", "TRITON_INTERPRET": "1"}
    guard = (
        "import runpy, sys; sys.modules['kinspect'] = None; sys.modules['torch'] = None;"
        "sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    return subprocess.run(
        [sys.executable, "-c", guard, str(folder / "reproduce.py"), *arguments],
        cwd=folder.parent, env=environment, capture_output=True, text=True, timeout=300,
        check=False,
    )  # fmt: skip


def instructions(text: str) -> list[str]:
    return [" ".join(match.split()) for match in INSTRUCTION.findall(text)]


@pytest.mark.parametrize("arch", ["gfx942", "gfx1201"])
def test_plain_triton_gives_the_same_instructions(
    arch: str, script: Path, tmp_path: Path, tool: Callable[..., Any]
) -> None:
    done = tool("export", script, "--arch", arch, "-o", "repro")
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"repro has product on {arch}: run repro/reproduce.py\n"
    folder = tmp_path / "repro"
    run = reproduced(folder)
    assert run.returncode == 0, run.stderr
    assert "the same as in expected.amdgcn" in run.stdout
    ours = kinspect.analyze(script, arch=arch)["product"].code("amdgcn")
    assert ours is not None
    theirs = (folder / "out" / "kernel.amdgcn").read_text()
    assert len(instructions(ours)) > 50
    assert instructions(theirs) == instructions(ours)
    assert (folder / "out" / "kernel.hsaco").read_bytes()[:4] == b"\x7fELF"
    names = {path.name for path in folder.iterdir()} - {"out"}
    assert names == {"kernel.ttir", "options.json", "reproduce.py", "README.md", "expected.amdgcn"}
    request = json.loads((folder / "options.json").read_text())
    assert request["options"] == {"num_stages": 2, "num_warps": 2, "waves_per_eu": 1}
    assert (request["arch"], request["constexprs"]) == (arch, {"BLOCK": 32})
    readme = (folder / "README.md").read_text().splitlines()
    assert len(readme) == 5
    assert readme[0].startswith(f"# `product` on {arch}, compiled with Triton ")


def test_what_differs_is_said(script: Path, tmp_path: Path, tool: Callable[..., Any]) -> None:
    assert tool("export", script, "--set", "num_warps=4", "-o", "repro").returncode == 0
    folder = tmp_path / "repro"
    request = json.loads((folder / "options.json").read_text())
    assert request["options"]["num_warps"] == 4
    (folder / "options.json").write_text(json.dumps({**request, "options": {"num_warps": 1}}))
    run = reproduced(folder, str(tmp_path / "elsewhere"))
    assert run.returncode == 1, run.stderr
    assert "not the same as expected.amdgcn: instruction " in run.stdout
    assert (tmp_path / "elsewhere" / "kernel.amdgcn").exists()
    (folder / "expected.amdgcn").unlink()
    assert "no expected.amdgcn to compare with" in reproduced(folder).stdout


def test_what_does_not_compile_is_exported(
    script: Path, tmp_path: Path, tool: Callable[..., Any]
) -> None:
    script.write_text(SCRIPT + BROKEN)
    done = tool("export", script, "--kernel", "broken", "-o", "repro")
    assert done.returncode == 0, done.stderr
    assert "it does not compile: " in done.stderr
    folder = tmp_path / "repro"
    assert not (folder / "expected.amdgcn").exists()
    assert "It fails there with: " in (folder / "README.md").read_text()
    run = reproduced(folder)
    assert run.returncode != 0
    assert "v_bogus_b32" in run.stderr


def test_one_of_several_is_chosen(script: Path, tmp_path: Path, tool: Callable[..., Any]) -> None:
    done = tool("export", script, "--arch", "gfx942,gfx950", "-o", "repro")
    assert done.returncode == 2
    assert "it has 2 kernels; choose one with --kernel and --arch: product on gfx942" in done.stderr
    assert not (tmp_path / "repro").exists()
    done = tool("export", script, "--kernel", "absent", "-o", "repro")
    assert done.returncode == 2
    assert "no kernel it launches matches 'absent'" in done.stderr


def test_of_ttir_and_of_a_saved_report(
    script: Path, tmp_path: Path, tool: Callable[..., Any]
) -> None:
    assert tool("analyze", script, "--save", "x.kinspect").returncode == 0
    script.unlink()
    assert tool("export", "x.kinspect", "-o", "saved").returncode == 0
    run = reproduced(tmp_path / "saved")
    assert run.returncode == 0, run.stderr
    assert "the same as in expected.amdgcn" in run.stdout
    done = tool("export", tmp_path / "saved" / "kernel.ttir", "-o", "again")
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "again" / "options.json").read_text())["options"] == {}


@pytest.mark.parametrize("directive", ['.incbin "x"', ".MACRO m d", ".irp d, include"])
def test_a_saved_kernel_that_could_read_files_is_refused(
    directive: str, script: Path, tmp_path: Path, tool: Callable[..., Any]
) -> None:
    """The reproducer is run by the user, and restricts no assembler."""
    assert tool("analyze", script, "--save", "x.kinspect").returncode == 0
    with zipfile.ZipFile(tmp_path / "x.kinspect") as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    text = files["report.json"].decode()
    (kernel,) = json.loads(text)["kernels"]
    stated = kernel["artifacts"]["ttir"]["sha256"]
    (name,) = (name for name in files if stated in name)
    ir = files.pop(name) + f'// asm_string = "{directive}"\n'.encode()
    digest = hashlib.sha256(ir).hexdigest()
    files[name.replace(stated, digest)] = ir
    files["report.json"] = text.replace(stated, digest).encode()
    with zipfile.ZipFile(tmp_path / "evil.kinspect", "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    done = tool("export", "evil.kinspect", "-o", "saved")
    assert done.returncode == 2
    assert "directives that read files" in done.stderr
    assert not (tmp_path / "saved").exists()


def test_ir_that_could_read_files_is_not_exported(
    script: Path, tmp_path: Path, tool: Callable[..., Any]
) -> None:
    assert tool("export", script, "-o", "own").returncode == 0
    ir = (tmp_path / "own" / "kernel.ttir").read_text()
    (tmp_path / "k.ttir").write_text(f'{ir}\n// asm_string = ".incbin \\"x\\""\n')
    done = tool("export", "k.ttir", "--arch", "gfx942", "-o", "evil")
    assert done.returncode == 2
    assert "directives that read files" in done.stderr
    assert not (tmp_path / "evil").exists()


def test_ttgir_is_compiled_as_such(tmp_path: Path, tool: Callable[..., Any]) -> None:
    pytest.importorskip("triton")
    example = Path(__file__).parent.parent / "docs" / "examples" / "gemm.ttgir"
    done = tool("export", example, "-o", "repro")
    assert done.returncode == 0, done.stderr
    run = reproduced(tmp_path / "repro")
    assert run.returncode == 0, run.stderr
    assert (tmp_path / "repro" / "kernel.ttgir").read_text() == example.read_text()


def test_code_without_ir_is_refused(tmp_path: Path, tool: Callable[..., Any]) -> None:
    done = tool("export", DATA / "small_gfx942.s", "-o", "repro")
    assert done.returncode == 2
    assert "no kernel in it that Triton can compile again; name a script" in done.stderr
    assert not (tmp_path / "repro").exists()


# --------------------------------------------------------------------------- the folder

VARIANT = Variant(
    kernel="k",
    arch="gfx942",
    wave_size=64,
    ttir="module {}",
    options={"num_warps": 4, "instr": (16, 16)},
)
KERNEL = reproducer.Reproducer(VARIANT, "k[a]", "3.9.0", "\ts_endpgm\n")


def test_an_empty_folder_is_used(tmp_path: Path) -> None:
    folder = tmp_path / "repro"
    folder.mkdir()
    reproducer.write(KERNEL, folder)
    assert (folder / "kernel.ttir").read_text() == "module {}"
    assert [path.name for path in tmp_path.iterdir()] == ["repro"]
    assert os.access(folder / "reproduce.py", os.X_OK)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("full", "it is not empty"),
        ("file", "it is not a folder"),
        ("dangling", "it is not a folder"),
        ("absent/repro", "no such folder"),
    ],
)
def test_what_is_there_stays(name: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("kept")
    (tmp_path / "file").write_text("kept")
    (tmp_path / "dangling").symlink_to("nowhere")
    before = sorted(path.name for path in tmp_path.rglob("*"))
    with pytest.raises(KinspectError, match=message):
        reproducer.write(KERNEL, tmp_path / name)
    assert sorted(path.name for path in tmp_path.rglob("*")) == before
    assert main(["export", "whatever.py", "-o", str(tmp_path / name)]) == 2


@pytest.mark.parametrize("broken", ["_readme", "synced"])
def test_nothing_is_left_half_written(
    broken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: object) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(reproducer, broken, full)
    with pytest.raises(KinspectError, match="the disk is full"):
        reproducer.write(KERNEL, tmp_path / "repro")
    assert not list(tmp_path.iterdir())


def test_variables_that_matter_are_kept_and_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AMDGCN_USE_BUFFER_OPS", "0")
    monkeypatch.setenv("TRITON_REDIS_PASSWORD", "secret")
    monkeypatch.setenv("HF_TOKEN", "secret")
    request = reproducer._request(KERNEL)
    assert request["environment"]["AMDGCN_USE_BUFFER_OPS"] == "0"
    assert "secret" not in json.dumps(request)


@pytest.mark.parametrize(
    ("ending", "message"),
    [
        ("import os; os._exit(0)", "launched nothing; it defines"),
        ("import sys; sys.exit(0)", "launched nothing; it defines"),
        ("raise ValueError('one\\ntwo')", "the script ended: ValueError: one two; see its output"),
        ("input()", "the script reads from stdin"),
        ("import os; os.kill(os.getpid(), 9)", "the script crashed (SIGKILL)"),
        ("print('x' * (100 << 20)); 1 / 0", "ZeroDivisionError"),
    ],
)
def test_a_script_that_ends_before_its_launch_leaves_nothing(
    ending: str, message: str, script: Path, tmp_path: Path, tool: Callable[..., Any]
) -> None:
    """One line says why, and below it stands the end of what the script printed, if anything."""
    script.write_text(SCRIPT.replace("a = torch", f"{ending}\na = torch"))
    done = tool("export", script.name, "--arch", "gfx942", "-o", "repro", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    first, *others = done.stderr.splitlines()
    assert message in first
    assert all(
        line.startswith(("kinspect: the last that", "  | ", "  kinspect analyze "))
        for line in others
    )
    assert len(done.stderr) < 10_000
    assert [path.name for path in tmp_path.iterdir()] == [script.name]


def test_a_failure_after_the_launch_is_a_note(
    script: Path, tmp_path: Path, tool: Callable[..., Any]
) -> None:
    script.write_text(SCRIPT + "import os\nos.remove(__file__)\nraise ValueError('late')\n")
    done = tool("export", script.name, "--arch", "gfx942", "-o", "ünï", cwd=tmp_path)
    assert done.returncode == 0
    assert "note: " in done.stderr
    assert "the script ended after 1 specialisations: ValueError: late" in done.stderr
    assert (tmp_path / "ünï" / "kernel.ttir").is_file()


def test_a_link_to_an_empty_folder_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    link = tmp_path / "link"
    link.symlink_to("empty")
    reproducer.write(KERNEL, link)
    assert link.is_symlink()
    assert (tmp_path / "empty" / "kernel.ttir").read_text() == "module {}"


def test_a_name_may_be_as_long_as_the_file_system_allows(tmp_path: Path) -> None:
    reproducer.write(KERNEL, tmp_path / ("a" * 250))
    assert [path.name for path in tmp_path.iterdir()] == ["a" * 250]
