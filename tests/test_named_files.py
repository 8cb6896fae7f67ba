"""Files that data names: regular ones alone, within a size, and where data may name them."""

from __future__ import annotations

import ast
import json
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from kinspect.inspector.base import named_files
from kinspect.inspector.base.errors import KinspectError
from kinspect.inspector.capture.resolving import resolve
from kinspect.inspector.compare.diff.isa import assembly_of
from kinspect.inspector.compile.diagnostics import names_files
from kinspect.inspector.explain.code.texts import texts_of
from kinspect.inspector.guest import readable_files
from kinspect.inspector.lint.baseline import read as read_baseline
from kinspect.inspector.lint.packs import load_pack
from kinspect.inspector.lint.settings import load as load_settings
from kinspect.inspector.metrics.catalogue import specs
from kinspect.inspector.pipeline.collecting import collect
from kinspect.inspector.pipeline.jobs import request_for
from kinspect.inspector.profile.running import manifest
from kinspect.inspector.report.saved import save
from msgspec.structs import replace

from tests.test_exit_status import KINSPECT

ROOT = Path(__file__).parent.parent
SMALL = (ROOT / "tests/data/small_gfx942.s").read_text()
SECRET = "zebra-secret-42"
MARKED = "# kinspect: ignore-file[KI001] zebra-secret-42"


@pytest.fixture(autouse=True)
def places(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A stranger's folder, which is the working one, beside a secret of the user's."""
    monkeypatch.setattr(named_files._Places, "folders", ())
    monkeypatch.setattr(named_files._Places, "packages", False)
    monkeypatch.setattr(named_files._Places, "only", None)
    stranger = tmp_path / "stranger"
    stranger.mkdir()
    (tmp_path / "secret").write_text(f"{MARKED}\n" * 99)
    monkeypatch.chdir(stranger)
    return stranger


def assembly(source: str) -> str:
    """The small kernel, whose lines come from a file of this name."""
    begin = "\ts_load_dwordx4"
    before, _, behind = SMALL.partition(begin)
    return f'{before}\t.file\t1 "{source}"\n\t.loc\t1 7 3\n{begin}{behind}'


def quoted(place: Path, source: str) -> str:
    """What a report of a kernel quotes of a source, its JSON and its texts."""
    (place / "k.s").write_text(assembly(source))
    report = collect(request_for(["k.s"]))
    assert report.kernels, report.errors
    save(report, place / "out.kinspect")
    archive = (place / "out.kinspect").read_bytes().hex()
    assert SECRET.encode().hex() not in archive
    texts = texts_of(report.kernels[0])
    return f"{report.kernels[0].findings}{report.notes}{dict(texts.lines).get('source')}"


@pytest.mark.parametrize("way", ["absolute", "upwards", "link", "linked folder"])
def test_what_lies_outside_is_not_quoted_and_said_once(places: Path, way: str) -> None:
    names = {"absolute": str(places.parent / "secret"), "upwards": "../secret"}
    (places / "link").symlink_to("../secret")
    (places / "linked folder").symlink_to("..")
    text = quoted(places, names.get(way, f"{way}/secret" if "folder" in way else way))
    assert SECRET not in text
    assert text.count("--source-root") == 1


def test_what_may_be_named_is_quoted(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (places / "own.py").write_text(f"{SECRET}\n" * 99)
    (places.parent / "secret.py").write_text(f"{SECRET}\n" * 99)
    assert SECRET in quoted_text(places, "own.py")
    assert SECRET not in quoted_text(places, "../secret.py")
    monkeypatch.setenv(named_files.VARIABLE, str(places.parent))
    assert SECRET in quoted_text(places, "../secret.py")
    monkeypatch.delenv(named_files.VARIABLE)
    (places.parent / ".git").mkdir()
    monkeypatch.setattr(named_files._Places, "folders", ())
    named_files._working_checkout.cache_clear()
    assert SECRET in quoted_text(places, "../secret.py")
    named_files.confine(places)  # as kinspect mcp --root
    assert SECRET not in quoted_text(places, "../secret.py")


def test_hidden_files_and_foreign_checkouts_are_not_quoted(
    places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (".env", ".cache/huggingface/token", ".venv/lib/settings.json"):
        (places / name).parent.mkdir(parents=True, exist_ok=True)
        (places / name).write_text(f"{SECRET}\n" * 99)
        assert SECRET not in quoted_text(places, name)
    (places / ".cache/inductor.py").write_text(f"{SECRET}\n" * 99)
    assert SECRET in quoted_text(places, ".cache/inductor.py")
    # A .git that anybody could have made names no checkout.
    (places.parent / "secret.py").write_text(f"{SECRET}\n" * 99)
    (places.parent / ".git").mkdir()
    places.parent.chmod(0o1777)
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    named_files._working_checkout.cache_clear()
    monkeypatch.setattr(named_files._Places, "folders", ())
    assert SECRET not in quoted_text(places, "../secret.py")
    named_files.confine(places)  # as kinspect mcp --root
    assert SECRET not in quoted_text(places, ".env")
    readable_files.confine([str(places)])
    assert not readable_files.is_allowed(str(places / ".env"))
    assert not readable_files.is_allowed(str(places / ".cache/huggingface/token"))
    assert readable_files.is_allowed(str(places / ".cache/inductor.py"))
    assert readable_files.is_allowed(str(places / "k.s"))
    readable_files.confine(None)


def quoted_text(place: Path, source: str) -> str:
    (place / "k.s").write_text(assembly(source))
    return str(collect(request_for(["k.s"])).kernels[0].findings)


@pytest.fixture(params=["fifo", "socket", "tty", "zero", "folder", "proc"])
def strange(request: pytest.FixtureRequest, places: Path) -> Iterator[Path]:
    """A file that is none."""
    path = places / "strange"
    descriptors: list[int] = []
    if request.param == "fifo":
        os.mkfifo(path)
    elif request.param == "socket":
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind("strange")
    elif request.param == "tty":
        descriptors += os.openpty()
        path.symlink_to(os.ttyname(descriptors[1]))
    elif request.param == "folder":
        path.mkdir()
    else:
        path.symlink_to({"zero": "/dev/zero", "proc": "/proc/self/environ"}[request.param])
    yield path
    for descriptor in descriptors:
        os.close(descriptor)


def test_no_strange_file_is_waited_for(strange: Path, places: Path) -> None:
    """Without bounds each would wait for a writer, or fill the memory."""
    named_files.allow(Path("/dev"), Path("/proc"))
    assert named_files.named_bytes(strange) is None
    assert "environ" in os.readlink(strange) if strange.is_file() else True
    (places / "k.s").write_text(assembly("strange"))
    assert collect(request_for(["k.s"])).kernels
    if strange.is_file():  # /proc: the user may name it
        return
    with pytest.raises(OSError, match=r"regular|directory|file"):
        named_files.file_bytes(strange)
    for reader in (read_baseline, load_settings, lambda path: load_pack(path, specs())):
        with pytest.raises(KinspectError, match=r"cannot (?:be )?read"):
            reader(strange)
    strange.rename(places / manifest.NAME)
    with pytest.raises(KinspectError, match=r"regular|directory"):
        manifest.read(places)


@pytest.mark.parametrize("option", ["--baseline", "--config", "--rules"])
def test_the_command_says_it_in_one_line(places: Path, option: str) -> None:
    (places / "k.s").write_text(SMALL)
    os.mkfifo(places / "fifo")
    done = subprocess.run(
        [*KINSPECT, "lint", "k.s", option, "fifo"], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr.count("kinspect: ")) == (2, 1), done.stderr
    assert "not a regular file" in done.stderr


def test_a_pipe_of_the_shells_is_read(places: Path) -> None:
    (places / "k.s").write_text(SMALL)
    (places / "base.json").write_text('{"schema_version": 1, "findings": []}')
    line = f"{' '.join(KINSPECT)} lint k.s --fail-on never --baseline <(cat base.json)"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "content",
    [b"\xff\xfe", b"[" * 100_000, b'{"passes": {}}', b"null", b'{"passes": [], "command": 5}'],
)
def test_a_damaged_manifest_is_one_line(places: Path, content: bytes) -> None:
    (places / manifest.NAME).write_bytes(content)
    with pytest.raises(KinspectError, match="damaged"):
        manifest.read(places)


@pytest.mark.parametrize(
    ("read", "most"),
    [(load_settings, 4 << 20), (read_baseline, 256 << 20), (manifest.read, 64 << 20)],
)
def test_a_sparse_file_is_not_read(places: Path, read: object, most: int) -> None:
    path = places / manifest.NAME
    with path.open("wb") as stream:
        stream.truncate(1 << 40)
    with pytest.raises(KinspectError, match=f"larger than {most >> 20} MiB"):
        read(places if read is manifest.read else path)  # type: ignore[operator]


def test_a_recording_with_a_file_of_holes_is_read_without_it(places: Path) -> None:
    """Its bounds grow with the size of its files: one of 8 GB took minutes."""
    (places / "pmc_perf.csv").write_text(
        "Dispatch_ID,GPU_ID,Grid_Size,Workgroup_Size,Kernel_Name,Start_Timestamp,End_Timestamp\n"
        "0,2,1024,256,copy,0,500\n"
    )
    with (places / "sysinfo.csv").open("wb") as stream:
        stream.truncate(8 << 30)
    done = subprocess.run([*KINSPECT, "profile", "import", "."], capture_output=True, text=True)
    assert done.returncode == 2
    assert "sysinfo.csv: profile: a file of holes" in done.stderr


@pytest.mark.parametrize("command", ["analyze holes.kitrace", "fault import holes.kitrace"])
def test_holes_are_not_read_as_a_trace_or_log(places: Path, command: str) -> None:
    with (places / "holes.kitrace").open("wb") as stream:
        stream.truncate(8 << 30)
    done = subprocess.run([*KINSPECT, *command.split()], capture_output=True, text=True, timeout=90)
    assert (done.returncode, "larger than 256 MiB" in done.stderr) == (2, True), done.stderr


@pytest.mark.parametrize("setting", ['rules = ["{}"]', 'baseline = "{}"'])
@pytest.mark.parametrize("name", ["../secret", "link"])
def test_settings_name_no_file_outside_their_checkout(
    places: Path, setting: str, name: str
) -> None:
    (places / "link").symlink_to("../secret")
    (places / "pyproject.toml").write_text(f"[tool.kinspect]\n{setting.format(name)}\n")
    (places / "k.s").write_text(SMALL)
    update = ["--update-baseline"] if "baseline" in setting else []
    done = subprocess.run([*KINSPECT, "lint", "k.s", *update], capture_output=True, text=True)
    assert done.returncode == 2
    assert "outside the checkout" in done.stderr
    assert SECRET not in done.stderr
    assert SECRET in (places.parent / "secret").read_text()


@pytest.mark.parametrize(
    ("name", "written", "says"),
    [
        ("../.git/hooks/post-checkout", True, "hidden"),
        ("../.git/x.json", True, "hidden"),
        ("../.env", True, "hidden"),
        ("../GNUmakefile", True, "not a .json file"),
        ("link.json", True, "hidden"),
        ("../../elsewhere/x.json", True, "outside the checkout"),
        ("../.git/config", False, "hidden"),
        ("../ci/known.json", True, None),
        ("../.github/known.json", True, None),
    ],
)
def test_settings_name_no_hidden_file(
    places: Path, name: str, written: bool, says: str | None
) -> None:
    """Of a folder that was copied into the user's checkout."""
    for folder in (".git/hooks", "own", "ci", ".github", "../elsewhere"):
        (places / folder).mkdir(parents=True)
    own = places / "own"
    (own / "link.json").symlink_to("../.git/x.json")
    (places / ".git" / "config").write_text(SECRET)
    (own / "k.s").write_text(SMALL)
    setting = f'baseline = "{name}"' if written else f'rules = ["{name}"]'
    (own / "pyproject.toml").write_text(f"[tool.kinspect]\n{setting}\n")
    done = subprocess.run(
        [*KINSPECT, "lint", "k.s", *["--update-baseline"][:written]],
        cwd=own,
        env={**os.environ, "KINSPECT_SOURCE_ROOT": str(places.parent)},
        capture_output=True,
        text=True,
    )
    assert SECRET not in done.stderr
    if says is None:
        assert done.returncode == 0, done.stderr
    else:
        assert (done.returncode, says in done.stderr) == (2, True), done.stderr
    assert (own / name).exists() is (says is None or name == "../.git/config")


def test_settings_name_no_file_of_the_home(places: Path) -> None:
    (places / "pyproject.toml").write_text('[tool.kinspect]\nrules = ["~/secret"]\n')
    (places / "k.s").write_text(SMALL)
    done = subprocess.run(
        [*KINSPECT, "lint", "k.s", "--config", "pyproject.toml"],
        env={**os.environ, "HOME": str(places.parent)},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, "outside the checkout" in done.stderr) == (2, True), done.stderr


def test_a_pack_extends_no_hidden_file(places: Path) -> None:
    (places / ".env").write_text(f"{SECRET}: 1\n")
    (places / "mine.yaml").write_text("extends: .env\n")
    with pytest.raises(KinspectError) as caught:
        load_pack(places / "mine.yaml", specs())
    assert SECRET not in str(caught.value)


def test_a_pack_extends_none_outside_its_checkout(places: Path) -> None:
    (places / "mine.yaml").write_text("extends: ../secret\n")
    with pytest.raises(KinspectError, match="outside the checkout"):
        load_pack(places / "mine.yaml", specs())


def test_a_saved_report_names_no_file_outside(places: Path) -> None:
    (places / "k.s").write_text(SMALL)
    done = subprocess.run(
        [*KINSPECT, "analyze", "k.s", "--format", "json", "--details"], capture_output=True
    )
    report = json.loads(done.stdout)
    secret = places.parent / "secret.s"
    secret.write_text(f"{SECRET}\n{SMALL}")
    for kernel in report["kernels"]:
        kernel["id"] = kernel["id"].replace("k.s", str(secret))
    (places / "report.json").write_text(json.dumps(report))
    for command in (["report"], ["show", "--text", "amdgcn"], ["lint"]):
        shown = subprocess.run([*KINSPECT, *command, "report.json"], capture_output=True, text=True)
        assert SECRET not in shown.stdout + shown.stderr
    outside, own = (collect(request_for([name])).kernels[0] for name in ("report.json", "k.s"))
    assert assembly_of(replace(outside, artifacts={})) is None, "of a diff"
    assert assembly_of(replace(own, artifacts={})) == SMALL


@pytest.mark.parametrize(
    ("assembly_text", "reads"),
    [
        (r"v_mov_b32 $0, $1\0A.incbin \22/etc/passwd\22", True),
        (r"v_mov_b32 $0, $1\0A .INCLUDE \22/dev/tty\22", True),
        (r".\69ncbin \22/etc/passwd\22", True),
        (r"v_exp_f32 $0, $1", False),
        (r".macro m d\0Av_\5Cd\5C()_f32 $0, $1\0A.endm\0Am exp", False),
    ],
)
def test_inline_assembly_that_names_files_is_found(assembly_text: str, reads: bool) -> None:
    escaped = rf'"tt.elementwise_inline_\61sm"(%c) <{{"\61sm_string" = "{assembly_text}"}}>'
    assert names_files(escaped) is reads
    assert names_files(f'%2 = tt.elementwise_inline_asm "{assembly_text}" {{}}') is reads


@pytest.mark.parametrize("name", ["secret", "pipe"])
def test_the_compiler_opens_no_file_that_a_location_names(name: str, places: Path) -> None:
    """To show its line beside an error; LLVM shows no caret below letters beyond ASCII."""
    (places.parent / "secret").write_text(f"{MARKED} \N{LATIN SMALL LETTER U WITH DIAERESIS}\n" * 9)
    os.mkfifo(places.parent / "pipe")
    at = f'loc("{places.parent}/{name}":2:1)'
    (places / "k.ttir").write_text(
        "module {\n  tt.func public @k(%p: !tt.ptr<i32>) {\n%0 = tt.get_program_id x : i32\n"
        f"ttng.fence_async_shared {{bCluster = false}} {at}\n"
        f"tt.store %p, %0 : !tt.ptr<i32> {at}\ntt.return\n}} }}\n"
    )
    request = replace(request_for(["k.ttir"]), time_limit=20.0)
    report = collect(request)
    assert "illegal" in report.errors[0].message
    assert SECRET not in repr(report)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (r".incbin {path}", "names files"),
        (r".macro m d\0A.inc\5Cd {path}\0A.endm\0Am bin", ""),
        (r".irp d, incbin\0A/* */.\5Cd {path}\0A.endr", ""),
        (r".macro f a\0D.\5Ca {path}\0D.endm\0Df incbin", ""),
        (r".macro f a\0A\22q q\22: .\5Ca {path}\0A.endm\0Af incbin", ""),
        # The raw line break of a string becomes one of the macro's body.
        (r".macro m a\0As_nop 0 ; x \5Ca\5C()bin {path}\0A.endm\0Am \22\0A.inc\22", ""),
    ],
)
def test_inline_assembly_carries_no_file_into_code(text: str, said: str, places: Path) -> None:
    """However it makes the directive."""
    text = text.replace("{path}", rf"\22{places.parent}/secret\22")
    text = rf"v_mov_b32 $0, $1\0A.pushsection .rodata\0A{text}\0A.popsection"
    (places / "k.ttir").write_text(
        "module {\n  tt.func public @k(%p: !tt.ptr<i32>) {\n%0 = tt.get_program_id x : i32\n"
        f'%1 = tt.elementwise_inline_asm "{text}" {{constraints = "=v,v", '
        "packed_element = 1 : i32, pure = false} %0 : i32 -> i32\n"
        "tt.store %p, %1 : !tt.ptr<i32>\ntt.return\n} }\n"
    )
    report = collect(request_for(["k.ttir"]))
    artifacts = [
        artifact.path for kernel in report.kernels for artifact in kernel.artifacts.values()
    ]
    assert not any(SECRET.encode() in path.read_bytes() for path in artifacts)
    assert len(report.kernels) + len(report.errors) == 1
    assert not said or said in report.errors[0].message


def test_home_and_root_are_no_projects(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(places.parent))
    (places.parent / ".git").mkdir()
    (places.parent / "private").mkdir()
    (places.parent / "private" / "key").write_text(SECRET)
    for folder in (places.parent, Path("/")):
        monkeypatch.setattr(named_files._Places, "folders", ())
        named_files.allow_target(folder / "k.s")
        assert named_files.named_bytes(places.parent / "private" / "key") is None
        assert named_files.named_bytes("/etc/passwd") is None


# What reads without `named_files`: files that kinspect, the system or its own child wrote.
OWN_FILES = {
    "inspector/compile/": "its own store, workers' folders, /proc",
    "inspector/base/documents.py": "files that come with kinspect",
    "inspector/guest/": "runs in the user's interpreter; but for `GUEST`",
    "inspector/host/env/": "/sys and /proc, its own ledger",
    "inspector/base/interrupting.py": "/proc",
    "inspector/base/landlock.py": "opens folders to name them, and reads nothing",
    "inspector/base/lifetimes.py": "/proc",
    "inspector/base/named_files.py": "this",
    "inspector/profile/running/installed.py": "/sys",
    "inspector/profile/running/pass_launch.py": "/proc",
    "inspector/base/staging.py": "its own locks",
    "inspector/base/streams.py": "its own streams",
    "inspector/base/writing.py": "its own output",
}
GUEST = (
    *("inspector/guest/parsed/", "inspector/guest/inductor/"),
    "inspector/guest/record/rebuilding.py",
)
"""What the guest reads because a trace or a cache of Inductor's names it."""
_READS = frozenset({"read_text", "read_bytes", "getline", "getlines"})
_OWNERS = frozenset({"os", "io", "gzip", "bz2", "lzma", "tokenize", "codecs"})


def reads(tree: ast.AST) -> Iterator[int]:
    """Yields the lines that read a file by its path, or open it to read."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        function = node.func
        name = getattr(function, "attr", getattr(function, "id", ""))
        owner = getattr(getattr(function, "value", None), "id", "")
        if isinstance(function, ast.Attribute) and name in _READS:
            yield node.lineno
        elif name == "open" and not _writes(node):
            is_plain = isinstance(function, ast.Name) or owner in _OWNERS
            constants = [a for a in node.args[:1] if isinstance(a, ast.Constant)]
            if is_plain or constants or any(k.arg == "encoding" for k in node.keywords):
                yield node.lineno


def _writes(call: ast.Call) -> bool:
    text = " ".join(ast.unparse(argument) for argument in call.args)
    modes = [a.value for a in call.args if isinstance(a, ast.Constant)]
    return "devnull" in text or any(isinstance(m, str) and set(m) & set("wxa") for m in modes)


def test_nothing_else_reads_files_by_their_paths() -> None:
    """Else a path that data names may be waited for, or carry a secret into a report."""
    listed = subprocess.run(
        ["git", "ls-files", "inspector/*.py", "tui/*.py"], cwd=ROOT, capture_output=True, text=True
    )
    names = listed.stdout.split()
    files = [name for name in names if not name.startswith(tuple(OWN_FILES))]
    files += [name for name in names if name.startswith(GUEST)]
    assert len(files) > 500
    found = [
        f"{name}:{line}"
        for name in files
        for line in reads(ast.parse((ROOT / name).read_text("utf-8")))
    ]
    assert found == []


MISSING = (
    "k.s", "run.kitrace", "base.json", "k.hsaco", "r.csv", "link.ext", "k.so", "k.SO", "k.elf",
    "k.a", "k.o", "k.bin", "k.exe", "k.hip", "k.cpp", "k.cu", "k.isa", "k.pt", "k.trace", "k.spv",
    "k.fatbin", "k.ptx", "k.cubin", "k.ll", "a.b.so", "k.c", "k.h", "k.md", "k.tar.gz",
)  # fmt: skip


@pytest.mark.parametrize("name", MISSING)
def test_a_file_to_read_that_is_not_there_runs_no_module(name: str, places: Path) -> None:
    folder = name.partition(".")[0]
    for place in (places, places / "src"):
        module = place.joinpath(*name.split(".")).with_suffix(".py")
        module.parent.mkdir(parents=True)
        (place / folder / "__init__.py").touch()
        module.write_text("import triton\n")
    if folder == "link":
        (places / name).symlink_to("gone")
    with pytest.raises(KinspectError, match=r"no such file|which is not there"):
        resolve(name)
    (places / "pkg").mkdir()
    (places / "pkg" / "mod.py").write_text("import triton\n")
    with pytest.raises(KinspectError, match="no such file"):
        resolve("pkg.mod")
    (places / "pkg" / "__init__.py").touch()
    assert resolve("pkg.mod")[0].path == Path("pkg/mod.py")
    assert resolve("pkg.mod::kernel")[0].kernel == "kernel"


def test_a_shared_folder_holds_what_lies_directly_in_it(
    places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A target in /tmp made all of /tmp readable."""
    monkeypatch.setattr(named_files._Places, "folders", ())
    (places / "private").mkdir()
    for name in ("beside.py", "private/own.py"):
        (places / name).write_text(f"{SECRET}\n" * 99)
    assert SECRET in quoted_text(places, "private/own.py")
    places.chmod(0o1777)
    monkeypatch.setattr(named_files._Places, "folders", ())
    assert SECRET not in quoted_text(places, "private/own.py")
    assert SECRET in quoted_text(places, "beside.py")


def test_a_cache_in_a_shared_folder_is_no_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    (tmp_path / "own").mkdir()
    (shared / "real").mkdir()
    (shared / "link").symlink_to(tmp_path / "own")
    (tmp_path / "link").symlink_to(tmp_path / "own")
    found = [
        p for p in ("shared/real", "shared/link", "link") if named_files._is_own(str(tmp_path / p))
    ]
    assert found == ["shared/real", "link"]


def test_host_and_guest_show_the_same_files() -> None:
    """The guest imports nothing of the host's, and so states them again."""
    assert (named_files._SHOWN, named_files._SOURCES) == (
        readable_files.SHOWN,
        readable_files.SOURCES,
    )
