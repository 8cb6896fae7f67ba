"""`kinspect mcp` with the protocol's own client: what a coding agent gets."""

from __future__ import annotations

import ast
import asyncio
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from kinspect.inspector.api.mcp_server import ScriptFailedError, Tools
from kinspect.inspector.base.errors import KinspectError
from kinspect.inspector.cli.main import main
from kinspect.inspector.guest.emulation.script import check_selects

pytest.importorskip("triton")

pytestmark = pytest.mark.xdist_group("mcp")

SCRIPT = """
    import os, sys
    import torch, triton, triton.language as tl

    @triton.jit
    def total(x, y, blocks, BLOCK: tl.constexpr):
        part = tl.zeros((BLOCK,), tl.float32)
        for block in range(blocks):
            part += tl.exp(tl.load(x + block * BLOCK + tl.arange(0, BLOCK)))
        tl.store(y + tl.arange(0, BLOCK), part)

    print('{"jsonrpc": "2.0", "id": 1, "result": {}}', flush=True)
    os.write(1, b"not the protocol\\n")
    assert not sys.stdin.read(), "the client's words are not for scripts"
    x = torch.zeros(65536, device="cuda")
    total[(1,)](x, x, 16, BLOCK=4096)
"""
Call = Callable[..., Awaitable[str]]


@pytest.fixture(autouse=True)
def _sdk() -> None:
    """Imported by the worker that needs it: that takes seconds."""
    pytest.importorskip("mcp")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "total.py").write_text(textwrap.dedent(SCRIPT))
    return tmp_path / "kernels"


def with_server(folder: Path, use: Callable[[Any, Call], Awaitable[None]]) -> None:
    """Starts a server and hands over a session, and a function that returns a tool's text."""
    import mcp
    from mcp.client.stdio import StdioServerParameters, stdio_client

    async def run() -> None:
        server = StdioServerParameters(
            command=sys.executable,
            args=["-m", "kinspect.inspector.cli", "mcp", "--root", str(folder)],
            env=dict(os.environ),
        )
        async with (
            stdio_client(server) as (reading, writing),
            mcp.ClientSession(reading, writing) as session,
        ):
            await session.initialize()

            async def call(name: str, **arguments: Any) -> str:
                result = await session.call_tool(name, arguments)
                (content,) = result.content
                return f"error: {content.text}" if result.is_error else str(content.text)

            await use(session, call)

    asyncio.run(asyncio.wait_for(run(), 120))


def test_from_a_report_to_a_cure(
    folder: Path, shared_guests: None, capfd: pytest.CaptureFixture[str]
) -> None:
    async def use(session: Any, call: Call) -> None:
        only = await call("lint", target="total.py", arch="gfx942", select=["KI063"])
        kernel = re.search(r"^kernel (\w+) total gfx942 total\.py:6", only, re.MULTILINE)
        (identity,) = re.findall(r"^finding (\w+) ", only, re.MULTILINE)
        tools = {tool.name: tool for tool in (await session.list_tools()).tools}
        check_calls(only, tools)
        assert kernel is not None, only
        assert "exponentials-to-base-e-in-hot-loop" in await call("show", id=identity)
        assert "count.valu = " in await call("show", id=f"{kernel[1]}.L0")
        assert "v_exp_f32" in await call("code", id=kernel[1])
        capfd.readouterr()
        assert main(["show", identity]) == 0, "in a shell too"
        assert "total.py:9" in capfd.readouterr().out
        report = await call("analyze", target="total.py", arch="gfx942")
        kernel = re.search(r"^kernel (\w+) total gfx942 total\.py:6", report, re.MULTILINE)
        finding = re.search(r"^finding (\w+) KI063 warning total\.py:9 ", report, re.MULTILINE)
        assert kernel is not None, report
        assert finding is not None, report
        check_calls(report, tools)
        full = await call("show", id=finding[1])
        assert "exponentials-to-base-e-in-hot-loop" in full
        assert "why: The hardware's exponential" in full
        loop = await call("show", id=f"{kernel[1]}.L0")
        assert "count.valu = " in loop
        assert len(loop) < 3_000
        check_calls(loop, tools)
        missing = await call("show", id=f"{kernel[1]}.L9")
        assert missing.endswith(f'`show(id="{kernel[1]}")` shows what it has'), missing
        assert "live.at = " in await call("show", id=f"{kernel[1]}.L0", details=True)
        code = await call("code", id=kernel[1], stage="ttir")
        assert "math.exp" in code
        assert (await call("code", id=kernel[1], first=2, last=2)).startswith("2 ")
        cures = await call("try_cures", target="total.py", arch="gfx942", rules=["KI063"])
        change = re.escape("tried: tl.exp2(x * 1.4426950408889634) for tl.exp(x): ")
        assert re.search(rf"{change}\d+ → [\d.]+ µs \(.+\), gone", cures), cures
        assert cures.startswith(f"kernel {kernel[1]} total gfx942 "), "the agent format"
        assert "\n  apply source exp2" in cures or "\n  apply source " in cures
        assert "kinspect " not in cures
        (tried,) = re.findall(r"^finding (\w+) ", cures, re.MULTILINE)
        assert "tried: " in await call("show", id=tried)
        diff = await call("compare", before="total.py", after="total.py", arch="gfx942")
        assert diff.startswith("diff 1 pair: 1 same")
        assert "kinspect " not in diff
        assert finding[1] == identity, "ids are the same"

    with_server(folder, use)


def check_calls(answer: str, tools: dict[str, Any]) -> None:
    """Whether an answer names tools with arguments that they take, and no commands of a shell."""
    assert "kinspect " not in answer
    assert " --" not in answer
    names = "|".join(tools)
    named = re.findall(rf"(?:^|: |[a-z] )((?:{names})\(.*?\))$", answer, re.MULTILINE)
    assert named, answer
    for text in named:
        call = ast.parse(text, mode="eval").body
        assert isinstance(call, ast.Call)
        assert isinstance(call.func, ast.Name)
        schema = tools[call.func.id].input_schema
        given = {str(keyword.arg) for keyword in call.keywords}
        assert set(schema.get("required", ())) <= given <= set(schema["properties"]), text
        for keyword in call.keywords:
            ast.literal_eval(keyword.value)


def test_saved_assembly_has_code_and_loops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lines that a loop's answer names are those of the file."""
    text = (Path(__file__).parent / "data" / "small_gfx942.s").read_text()
    (tmp_path / "small.s").write_text(text)
    monkeypatch.chdir(tmp_path)
    tools = Tools()
    report = tools.analyze("small.s", details=True)
    loop = re.search(r"^loop (\w+\.L0) ", report, re.MULTILINE)
    assert loop is not None, report
    named = re.search(r"code\(id=\"(\w+)\", first=(\d+), last=(\d+)\)", tools.show(loop[1]))
    assert named is not None
    code = tools.code(named[1], first=int(named[2]), last=int(named[3])).splitlines()
    assert code[0].startswith(f"{named[2]} ")
    assert "s_cbranch" in code[-2]
    assert code[-1].endswith(" more lines")
    with pytest.raises(KinspectError, match="has no ttgir"):
        tools.code(named[1], stage="ttgir")


def test_next_steps_find_kernels_by_the_same_signature(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shared_guests: None
) -> None:
    defined = textwrap.dedent(SCRIPT).partition("print(")[0]
    (tmp_path / "defined.py").write_text(defined)
    monkeypatch.chdir(tmp_path)
    tools = Tools()
    signature = "*fp32:16, *fp32:16, i32, 4096"
    report = tools.analyze("defined.py", arch="gfx942", signature=signature, details=True)
    kernel = re.search(r"^kernel (\w+) ", report)
    assert kernel is not None, report
    assert tools.show(kernel[1]) == report, "with the same calls"
    named = re.search(r"try_cures\(.*\)$", report, re.MULTILINE)
    assert named is not None, report
    call = ast.parse(named[0], mode="eval").body
    assert isinstance(call, ast.Call)
    arguments = {str(k.arg): ast.literal_eval(k.value) for k in call.keywords}
    assert (arguments["kernel"], arguments["signature"]) == ("total", signature)
    assert tools.try_cures(**arguments, budget_seconds=0).startswith(f"kernel {kernel[1]} ")
    judged = tools.lint("defined.py", arch="gfx942", signature=signature)
    assert (
        f'more analyze(target="defined.py", kernel="total", arch="gfx942", signature="{signature}")'
        in judged
    )


def test_a_script_that_fails_is_an_error(folder: Path) -> None:
    """Its status, the exception and the end of the traceback reach the agent."""
    script = textwrap.dedent(SCRIPT).split("print(")[0]
    (folder / "wrong.py").write_text(
        script + "x = torch.zeros(256, device='cuda')\ntotal[(1,)](x, x, 1, BLOCK=256)\n"
        "assert (x == 2).all(), '100 % mismatched'\n"
    )

    async def use(session: Any, call: Call) -> None:
        answer = await call("emulate", script="wrong.py")
        first, *rest = answer.splitlines()
        assert first.endswith(
            "the script FAILED, status 1: AssertionError: 100 % mismatched at wrong.py:14"
        )
        assert first.startswith("error: ")
        assert "  AssertionError: 100 % mismatched" in rest
        assert len(answer) < 6_000

    with_server(folder, use)


def test_what_scripts_print_and_read_is_not_the_protocols(folder: Path) -> None:
    async def use(session: Any, call: Call) -> None:
        told = await call("emulate", script="total.py", sample=1)
        assert "total" in told
        assert "not the protocol" not in told
        names = {tool.name for tool in (await session.list_tools()).tools}
        assert {"analyze", "lint", "show", "code", "try_cures", "emulate", "sweep"} <= names

    with_server(folder, use)


def test_mistakes_are_answers_of_one_line(folder: Path) -> None:
    (folder.parent / "secret.s").write_text("s_endpgm\n")
    (folder / "link.s").symlink_to("../secret.s")

    async def use(session: Any, call: Call) -> None:
        for arguments, message in (
            ({"target": "absent.py"}, "no such file"),
            ({"target": "../secret.s"}, "is not below"),
            ({"target": "link.s"}, "is not below"),
            ({"target": "total.py", "arch": "gfx999"}, "unknown target"),
        ):
            answer = await call("analyze", **arguments)
            assert answer.startswith("error: "), answer
            assert message in answer
            assert "\n" not in answer
        assert "is not an id" in await call("show", id="the first one")
        assert "none of the last reports" in await call("show", id="abcdef")
        assert "no stage" in await call("code", id="abcdef", stage="elf")
        assert await call("occupancy", arch="gfx942", vgprs=140, lds_bytes=32768) == (
            "2 waves/SIMD, limited by lds"
        )

    with_server(folder, use)


NO_FILE = "no file is called so"


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("links", "links/out.s: read: leads out of {root}"),
        ("kernels.linked", "src/kernels/linked.py: leads out of {root}"),
        ("beside.amdgcn", "beside.ttgir: leads out of {root}"),
        ("below/../../outside.s", "is not below"),
        ("to/outside.s", "is not below"),
        ("a\0b.py", NO_FILE),
        ("links\0", NO_FILE),
        ("\ud800.s", NO_FILE),
        ("a" * 300, "a name of 300 characters"),
        ("two::colons.s", "a name with ::"),
    ],
)
@pytest.mark.parametrize("tool", ["analyze", "lint", "try_cures", "compare"])
def test_no_file_outside_the_root_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: str, target: str, message: str
) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside.s"
    for folder in ("links", "src/kernels", "below"):
        (root / folder).mkdir(parents=True)
    (root / "src/kernels/__init__.py").touch()
    outside.write_text("s_endpgm\n")
    (tmp_path / "outside.py").write_text("raise SystemExit('run')\n@triton.jit\ndef k(): pass\n")
    (root / "links" / "out.s").symlink_to("../../outside.s")
    (root / "src" / "kernels" / "linked.py").symlink_to(tmp_path / "outside.py")
    (root / "to").symlink_to(tmp_path)
    (root / "beside.amdgcn").write_text("s_endpgm\n")
    (root / "beside.ttgir").symlink_to(outside)
    (root / "two::colons.s").write_text("s_endpgm\n")
    monkeypatch.chdir(root)
    more = [target] if tool == "compare" else []
    with pytest.raises(KinspectError) as error:
        getattr(Tools(), tool)(target, *more)
    assert message.format(root=root) in str(error.value).replace(f"{target}: read: ", "")


def test_emulated_scripts_are_named_like_targets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for script, message in (("a\0b", NO_FILE), ("b" * 300, "300 characters"), ("", "no file")):
        with pytest.raises(KinspectError, match=message):
            Tools().emulate(script)


@pytest.mark.parametrize(
    "argv",
    [
        ["{outside}/test_outside.py"],
        ["-k", "inside", "{outside}/test_outside.py"],
        ["--tb", "short", "@{outside}/words"],
        ["-k", "@{outside}/words"],
        ["-k", "--confcutdir={outside}"],
        ["-p", "evil"],
        ["-c", "{outside}/pytest.ini"],
        ["--basetemp={outside}"],
        ["--junitxml={outside}/written"],
        ["-ktest", "-o", "python_files=*"],
    ],
    ids=str,
)
def test_what_does_more_than_select_is_refused(tmp_path: Path, argv: list[str]) -> None:
    with pytest.raises(SystemExit, match="not taken for pytest here: "):
        check_selects([word.format(outside=tmp_path) for word in argv])


@pytest.mark.parametrize(
    "argv",
    [
        ["-k", "inside", "{outside}/test_outside.py"],
        ["--junitxml={outside}/written"],
    ],
    ids=str,
)
def test_of_pytests_arguments_agents_give_those_that_select(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, emulating_forks: None, argv: list[str]
) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    for folder in (root, outside):
        folder.mkdir()
    (outside / "test_outside.py").write_text(f"open('{outside}/canary', 'w')\ndef test(): pass\n")
    (outside / "words").write_text(f"{outside}/test_outside.py\n")
    (root / "test_inside.py").write_text("def test_inside(): pass\n")
    monkeypatch.chdir(root)
    before = sorted(outside.iterdir())
    with pytest.raises(ScriptFailedError, match="not taken for pytest here: "):
        Tools().emulate("test_inside.py", [word.format(outside=outside) for word in argv])
    assert sorted(outside.iterdir()) == before


def test_agents_select_tests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, emulating_forks: None
) -> None:
    (tmp_path / "test_two.py").write_text("def test_a(): pass\ndef test_b(): assert 0\n")
    monkeypatch.chdir(tmp_path)
    Tools().emulate("test_two.py", ["-k", "test_a", "-q", "--tb=short"])


def test_without_the_sdk_it_says_what_to_install(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['mcp'] = None\n"
        "from kinspect.inspector.cli.main import console_script\n"
        "sys.argv = ['kinspect', 'mcp']; console_script()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 2
    assert done.stderr == (
        "kinspect: error: the Model Context Protocol's SDK is not installed;"
        " pip install 'kinspect[mcp]'\n"
    )
