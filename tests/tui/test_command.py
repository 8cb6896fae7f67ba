"""`kinspect tui` as a command: what it says before a screen opens, and the way to a browser."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from kinspect.inspector.base.errors import KinspectError
from kinspect.inspector.cli.group import COMMANDS
from kinspect.tui import web
from kinspect.tui.application import Opening
from kinspect.tui.command import _text_file, tui
from tui_terminal import kinspect

ISA = Path(__file__).parent.parent / "data" / "isa"
ASM = ISA / "attend.triton39.gfx90a.amdgcn"


def ran(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        kinspect(*arguments), capture_output=True, text=True, timeout=120, **options
    )


# --------------------------------------------------------------------------- what it says


def test_help_is_true() -> None:
    done = CliRunner().invoke(tui, ["--help"])
    assert done.exit_code == 0
    for option in ("--arch", "--page", "--watch", "--web", "--port", "--call", "--first"):
        assert option in done.output
    assert COMMANDS["tui"][2] in ran("--help").stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([str(ASM)], "needs a terminal"),
        ([], "needs a terminal"),
        (["nothing.s"], "nothing.s: no such file"),
        (["nothing.py::kernel"], "nothing.py: no such file"),
        ([__file__ + "x"], "no such file"),
        (["README.md"], "not a kind of file that kinspect reads"),
        ([str(ASM), "--arch", "gfx0"], "unknown target 'gfx0'"),
        (["--page", "kernel"], "'kernel' is not one of"),
        (["--jobs", "0"], "Invalid value for '-j'"),
    ],
)
def test_what_is_wrong_is_one_line_before_the_screen_opens(arguments: list[str], said: str) -> None:
    root = Path(__file__).parent.parent.parent
    done = ran("tui", *arguments, cwd=root, stdin=subprocess.DEVNULL)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count("kinspect: ") == 1
    assert done.stderr.startswith("kinspect: error: ")
    assert done.stdout == ""


@pytest.mark.parametrize(
    "arguments",
    [["--version"], ["--help"], ["tui", "--help"], ["metrics", "list"], ["tui", "nothing.s"]],
    ids=" ".join,
)
def test_textual_is_imported_for_the_screen_alone(arguments: list[str]) -> None:
    code = (
        "import sys\n"
        "from kinspect.inspector.cli.main import main\n"
        "try:\n"
        f"    main({arguments!r})\n"
        "finally:\n"
        "    loaded = {'textual', 'kinspect.inspector.pipeline.analysis'} & set(sys.modules)\n"
        "    sys.stderr.write(f'loaded={sorted(loaded)}')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    loaded = done.stderr.rpartition("loaded=")[2]
    assert "textual" not in loaded
    if arguments[0] == "tui":
        assert loaded == "[]"


def test_the_first_page_is_painted_without_the_pipeline() -> None:
    code = (
        "import sys, kinspect.tui.app\n"
        "from kinspect.tui.pages import page_class\n"
        "sys.stdout.write(str('kinspect.inspector.pipeline.analysis' in sys.modules))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "False", done.stderr


def test_one_text_file_is_opened_as_such(tmp_path: Path) -> None:
    ttgir = tmp_path / "a.ttgir"
    ttgir.write_text("module {}")
    assert _text_file([str(ASM)]) == ASM
    assert _text_file([str(ttgir)]) == ttgir
    assert _text_file([str(ASM), str(ASM)]) is None
    assert _text_file([f"{ASM}::kernel"]) is None
    assert _text_file([str(tmp_path)]) is None
    assert _text_file([]) is None
    assert Opening().text is None


# --------------------------------------------------------------------------- in a browser


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (["tui", "--web", "a.s"], ["tui", "a.s"]),
        (["tui", "a.s", "--port", "80", "--web"], ["tui", "a.s"]),
        (["tui", "--port=80", "--web", "--watch"], ["tui", "--watch"]),
        (
            ["tui", "--web", "a.py", "--", "--web", "--port", "1"],
            ["tui", "a.py", "--", "--web", "--port", "1"],
        ),
        (["tui", "--port"], ["tui"]),
    ],
)
def test_the_same_command_line_without_the_server(given: list[str], kept: list[str]) -> None:
    assert web.command_line(given) == kept


def test_without_textual_serve_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "textual_serve.server", None)
    with pytest.raises(KinspectError, match=r"pip install 'kinspect\[web\]'"):
        web.serve(8000, ["tui"])


def test_a_port_that_is_taken_is_one_line() -> None:
    pytest.importorskip("textual_serve")
    with socket.socket() as taken:
        taken.bind((web.HOST, 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = ran("tui", "--web", "--port", str(port))
    assert done.returncode == 2
    assert f"port {port} of 127.0.0.1 is taken; name another with --port" in done.stderr


async def test_it_is_served_to_those_who_have_its_address() -> None:
    """A browser gets the page and, over its WebSocket, the screen."""
    pytest.importorskip("textual_serve")
    import aiohttp

    with socket.socket() as free:
        free.bind((web.HOST, 0))
        port = free.getsockname()[1]
    server = subprocess.Popen(
        kinspect("tui", str(ASM), "--page", "profile", "--web", "--port", str(port)),
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stderr is not None
        (url,) = re.findall(r"http://127\.0\.0\.1:\d+/\S+", server.stderr.readline())
        assert "kinspect" in _fetched(url)
        root = f"http://127.0.0.1:{port}"
        for guessed in ("", "static/css/xterm.css", "x" * 22 + "/"):
            with pytest.raises(urllib.error.HTTPError, match="404"):
                _fetched(f"{root}/{guessed}")
        async with aiohttp.ClientSession() as session:
            with pytest.raises(aiohttp.WSServerHandshakeError, match="404"):
                await session.ws_connect(f"{root}/ws?width=80&height=24", origin=root)
            async with session.ws_connect(f"{url}ws?width=80&height=24", origin=root) as socket_:
                shown = b""
                deadline = time.monotonic() + 60
                while b"Nothing was measured" not in shown:
                    assert time.monotonic() < deadline
                    message = await socket_.receive(timeout=60)
                    if message.type == aiohttp.WSMsgType.BINARY:
                        shown += message.data
    finally:
        server.send_signal(signal.SIGINT)
        assert server.wait(60) == 0


def _fetched(url: str) -> str:
    with urllib.request.urlopen(url, timeout=60) as reply:
        return str(reply.read().decode())


def test_nobody_else_can_reach_it() -> None:
    assert web.HOST == "127.0.0.1"
    assert not web.in_browser()
    assert web.DRIVER not in os.environ
