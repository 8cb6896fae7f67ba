"""`kinspect fault -- command`: finding the agent, its options, and whole runs with a stand-in.

`AGENT` stands in for a program that loads the debug agent: it takes ROCM_DEBUG_AGENT_OPTIONS apart
as the agent does (at blanks, `%p` expanded), saves the code object under the agent's name for it,
and writes a report in the agent's layout.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from unittest.mock import ANY

import pytest
from kinspect.inspector.base.errors import KinspectError
from kinspect.inspector.host.fault import agent
from kinspect.inspector.host.fault.code_objects import saved_name

ADD = Path(__file__).parent / "data" / "elf" / "triton.gfx90a.hsaco"
URI = f"memory://99#offset=0x55d0c0de0000&size={ADD.stat().st_size}"
LOADED = 0x7F3A00000000
PC = LOADED + 0x17A8

AGENT = f"""
import os, shutil, signal, sys
assert os.path.isfile(os.environ["HSA_TOOLS_LIB"]), os.environ["HSA_TOOLS_LIB"]
assert os.environ["HSA_ENABLE_DEBUG"] == "1" and os.environ["AMD_COMGR_CACHE"] == "0"
assert os.path.isdir(os.environ["TRITON_CACHE_DIR"])
options = dict(
    (word.split("=", 1) if "=" in word else (word, ""))
    for word in os.environ["ROCM_DEBUG_AGENT_OPTIONS"].split()
)
output = options.pop("--output")
if "OLD_AGENT" not in os.environ:
    output = output.replace("%p", str(os.getpid()))
objects = options.pop("--save-code-objects")
assert options.pop("--log-level") == "warning"
assert os.path.isdir(objects), objects
print("the program's own output", flush=True)
what, *rest = sys.argv[1:]
if what == "fault":
    reason = "stopped, reason: MEMORY_VIOLATION"
    with open(output, "w") as out:
        for number in range(1024):
            out.write("-" * 56 + "\\n")
            out.write(f"wave_{{number}}: pc={PC:#x} (kernel_code_entry={LOADED + 0x1600:#x} <add>, "
                      f"kernargs=0x7f00) ({{reason}})\\n\\n")
            out.write("scalar registers:\\n            s0: 00000000\\n\\n")
            out.write("Disassembly for function add:\\n    code object: {URI}\\n"
                      "    loaded at: [{LOADED:#x}-{LOADED + 0x3000:#x}]\\n\\n"
                      " => {PC:#x} <+424>:    s_waitcnt vmcnt(0)\\n    ...\\n\\n"
                      "End of disassembly.\\n")
    shutil.copy({str(ADD)!r}, os.path.join(objects, "3_" + {saved_name(URI)!r}))
    sys.stderr.write("Memory access fault by GPU node-1 (Agent handle: 0x1e6d670) on address "
                     "0xa1a591000. Reason: Page not present or supervisor privilege.\\n")
    sys.stderr.flush()
    os.kill(os.getpid(), signal.SIGABRT)
if what == "options":
    print(sorted(options), os.environ.get("PYTORCH_NO_HIP_MEMORY_CACHING"),
          os.environ.get("HSA_DISABLE_FRAGMENT_ALLOCATOR"))
if what == "signal":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(33))
    print("ready", flush=True)
    signal.pause()
sys.exit(int(rest[0]) if rest else 0)
"""

Tool = Callable[..., "CompletedProcess[str]"]


@pytest.fixture
def stand_in(tmp_path: Path) -> list[str]:
    (tmp_path / "program.py").write_text(AGENT)
    library = tmp_path / "rocm" / "lib" / "librocm-debug-agent.so.2"
    library.parent.mkdir(parents=True)
    library.write_bytes(b"")
    return ["--", sys.executable, str(tmp_path / "program.py")]


@pytest.fixture
def rocm(tmp_path: Path) -> dict[str, str]:
    return {"ROCM_PATH": str(tmp_path / "rocm"), "ROCM_DEBUG_AGENT_OPTIONS": "", "COLUMNS": "80"}


def test_a_fault(tool: Tool, tmp_path: Path, stand_in: list[str], rocm: dict[str, str]) -> None:
    done = tool("fault", "--out", "run", *stand_in, "fault", env=rocm)
    assert done.returncode == 128 + signal.SIGABRT
    assert done.stdout == "the program's own output\n"
    assert done.stderr.startswith("Memory access fault by GPU node-1 (Agent handle")
    assert "1,024 waves at pc 0x7f3a000017a8: MEMORY_VIOLATION" in done.stderr
    assert "1. global_load_ushort v5, v[2:3], off offset:256   ISA 89   /src/add.py:16" in (
        done.stderr
    )
    kept = json.loads((tmp_path / "run" / "fault.json").read_text())
    assert kept["exit_status"] == 134
    assert kept["messages"][0]["address"] == "0xa1a591000"
    assert kept["stops"][0]["waves"] == 1024
    # The folder is what `import` reads as well, wherever it is.
    again = tool("fault", "import", "run", "--format", "json")
    assert again.returncode == 0
    assert json.loads(again.stdout)["stops"] == [{**s, "saved": ANY} for s in kept["stops"]]
    # What it says to open can be read, and has the instruction on that line.
    shown = tool("analyze", kept["stops"][0]["saved"])
    assert "add  gfx90a  add.py:13" in shown.stdout


@pytest.mark.parametrize("place", ["a folder", "50%done"])
def test_folders_that_the_agent_cannot_be_told_of(
    tool: Tool, tmp_path: Path, stand_in: list[str], rocm: dict[str, str], place: str
) -> None:
    done = tool("fault", "--out", place, *stand_in, "fault", env=rocm)
    assert done.returncode == 134, done.stderr
    assert "1,024 waves" in done.stderr
    assert list((tmp_path / place).glob("report.*.txt"))
    assert list((tmp_path / place / "code_objects").iterdir())


def test_an_agent_that_does_not_know_the_number(
    tool: Tool, tmp_path: Path, stand_in: list[str], rocm: dict[str, str]
) -> None:
    done = tool("fault", "--out", "run", *stand_in, "fault", env={**rocm, "OLD_AGENT": "1"})
    assert "1,024 waves" in done.stderr
    assert "note: this agent writes one report for all processes" in done.stderr
    assert (tmp_path / "run" / "report.%p.txt").exists()


def test_no_fault(tool: Tool, tmp_path: Path, stand_in: list[str], rocm: dict[str, str]) -> None:
    done = tool("fault", "--out", "run", *stand_in, "fine", "7", env=rocm)
    assert done.returncode == 7
    assert "no fault: nothing says that a GPU stopped" in done.stderr
    assert "the program ended with status 7" in done.stderr
    assert json.loads((tmp_path / "run" / "fault.json").read_text())["faulted"] is False


def test_the_result_in_a_file(
    tool: Tool, tmp_path: Path, stand_in: list[str], rocm: dict[str, str]
) -> None:
    done = tool("fault", "--format", "json", "-o", "f.json", *stand_in, "fault", env=rocm)
    assert "1,024 waves" not in done.stderr
    assert json.loads((tmp_path / "f.json").read_text())["kind"] == "fault"
    (folder,) = tmp_path.glob("kinspect-fault-*")
    assert (folder / "stderr.txt").read_text().startswith("Memory access fault")


def test_options_of_the_agent(tool: Tool, stand_in: list[str], rocm: dict[str, str]) -> None:
    done = tool("fault", "--all-waves", "--precise", *stand_in, "options", env=rocm)
    assert "['--all', '--precise-memory'] 1 1" in done.stdout
    cached = tool("fault", "--out", "x", "--memory-caches", *stand_in, "options", env=rocm)
    assert "[] None None" in cached.stdout


def test_what_the_user_had_set_is_said(
    tool: Tool, stand_in: list[str], rocm: dict[str, str]
) -> None:
    done = tool("fault", *stand_in, "fine", env={**rocm, "HSA_TOOLS_LIB": "libmine.so"})
    assert "kinspect: HSA_TOOLS_LIB=libmine.so is replaced for this run" in done.stderr


def test_signals_reach_the_program(
    tmp_path: Path, stand_in: list[str], rocm: dict[str, str]
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "kinspect.inspector.cli", "fault", *stand_in, "signal"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env={**os.environ, **rocm},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "the program's own output\n"
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 33


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--agent", "/nowhere/lib.so", "--", "true"], "/nowhere/lib.so: no such file"),
        (["--", "no-such-program"], "no-such-program: cannot be run"),
        (["--bogus", "--", "true"], "No such option"),
        (["--out", "full", "--", "true"], "is not empty"),
    ],
)
def test_our_own_failures_are_125(
    tool: Tool,
    tmp_path: Path,
    stand_in: list[str],
    rocm: dict[str, str],
    args: list[str],
    message: str,
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").write_text("")
    done = tool("fault", *args, env=rocm)
    assert done.returncode == 125
    assert message in done.stderr
    assert done.stderr.count("kinspect: ") == 1


def test_no_agent(tool: Tool, tmp_path: Path) -> None:
    done = tool("fault", "--", "true", env={"ROCM_PATH": str(tmp_path)})
    if "was not found" not in done.stderr:
        pytest.skip("the debug agent is installed here")
    assert done.returncode == 125
    assert f"looked in {tmp_path}/lib" in done.stderr


def test_import_of_nonsense_is_a_usage_error(tool: Tool, tmp_path: Path) -> None:
    (tmp_path / "log").write_text("fine\n")
    for path, message in (("log", "holds neither"), ("none", "no such file")):
        done = tool("fault", "import", path)
        assert (done.returncode, done.stderr.count("kinspect: ")) == (2, 1)
        assert message in done.stderr


# --------------------------------------------------------------------------- the library


def touch(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return path


@pytest.mark.parametrize(
    "place",
    [
        "given/lib/librocm-debug-agent.so.2",
        "venv/lib/python3.12/site-packages/_rocm_sdk_core/lib/librocm-debug-agent.so.2",
        "ld/librocm-debug-agent.so",
        "opt/rocm/lib/librocm-debug-agent.so.2",
        "opt/rocm-6.4.1/lib/librocm-debug-agent.so.2",
    ],
)
def test_where_it_is_found(tmp_path: Path, place: str) -> None:
    library = touch(tmp_path / place)
    environ = {"ROCM_PATH": str(tmp_path / "given"), "LD_LIBRARY_PATH": f":{tmp_path / 'ld'}"}
    folders = agent.library_folders(environ, [tmp_path / "venv"], tmp_path)
    assert agent.find_agent(folders) == library


def test_the_newest_rocm_first(tmp_path: Path) -> None:
    for version in ("6.3.0", "10.0.2", "7.2.1"):
        touch(tmp_path / "opt" / f"rocm-{version}" / "lib" / "librocm-debug-agent.so.2")
    found = agent.find_agent(agent.library_folders({}, [], tmp_path))
    assert "rocm-10.0.2" in str(found)


def test_nowhere(tmp_path: Path) -> None:
    with pytest.raises(KinspectError, match="was not found") as raised:
        agent.find_agent(agent.library_folders({}, [], tmp_path))
    assert raised.value.exit_code == 125


def test_a_library_whose_path_has_blanks_goes_by_its_name(tmp_path: Path) -> None:
    library = touch(tmp_path / "my rocm" / "librocm-debug-agent.so.2")
    made = agent.environment({"LD_LIBRARY_PATH": "/x"}, library, "-a", tmp_path / "cache")
    assert made["HSA_TOOLS_LIB"] == "librocm-debug-agent.so.2"
    assert made["LD_LIBRARY_PATH"] == f"{library.parent}:/x"


def test_the_usage_names_its_options_once(capfd: pytest.CaptureFixture[str]) -> None:
    from kinspect.inspector.cli.group import run

    assert run(["fault", "--help"]) == 0
    usage = capfd.readouterr().out.splitlines()[0]
    assert usage == "Usage: kinspect fault [OPTIONS] -- COMMAND | import PATH"
