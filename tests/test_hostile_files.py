"""Files of strangers: whatever is in one, it is one line and the others are reported."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import shutil
import struct
import subprocess
import time
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from kinspect.inspector.base import limits
from kinspect.inspector.base.documents import python_tree
from kinspect.inspector.base.errors import KinspectError
from kinspect.inspector.guest import syntax
from kinspect.inspector.lint import baseline
from kinspect.inspector.model import KernelReport
from kinspect.inspector.pipeline import collecting as pipeline
from kinspect.inspector.pipeline.jobs import Request
from kinspect.inspector.pipeline.reading import Work, read_target
from kinspect.inspector.report import json_write as json_v1
from kinspect.inspector.report import saved

Tool = Callable[..., subprocess.CompletedProcess[str]]
GOOD = Path(__file__).parent / "data" / "small_gfx942.s"
MOST_SECONDS = 20


@pytest.fixture
def tool(tool_in_process: Tool) -> Tool:
    return tool_in_process


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    return json_v1.to_dict(pipeline.collect(Request((str(GOOD),))))


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    place = tmp_path_factory.mktemp("saved") / "a.kinspect"
    saved.save(pipeline.collect(Request((str(GOOD),))), place)
    return place.read_bytes()


# --------------------------------------------------------------------------- damage


def _zip(method: int, name: str = "report.json", data: bytes = b"{}") -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as packed:
        packed.writestr(name, data)
    return out.getvalue()


def _zip_bomb() -> bytes:
    """A gigabyte of blanks in 1 MB: one piece of the stream is squeezed and stands 1024 times.

    The checksum is that of a small member; whoever reads so far has unpacked the gigabyte.
    """
    squeeze = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    piece = squeeze.compress(b" " * (1 << 20)) + squeeze.flush(zlib.Z_FULL_FLUSH)
    body = piece * 1024 + squeeze.flush()
    small = _zip(zipfile.ZIP_DEFLATED, data=b" ")
    head, directory = 30 + len("report.json"), small.rfind(b"PK\x01\x02")
    data = bytearray(small[:head] + body + small[directory:])
    end = data.rfind(b"PK\x05\x06")
    struct.pack_into("<I", data, end + 16, head + len(body))
    for signature, at in ((b"PK\x03\x04", 18), (b"PK\x01\x02", 20)):
        struct.pack_into("<II", data, data.rfind(signature) + at, len(body), 1 << 30)
    return bytes(data)


def _lying_zip() -> bytes:
    """Says that it unpacks to 100 bytes; it unpacks to as much as its 1 MB can."""
    data = bytearray(_zip_bomb())
    for signature, at in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        struct.pack_into("<I", data, data.rfind(signature) + at, 100)
    return bytes(data)


def _patched(data: bytes, after: bytes, offset: int, new: bytes) -> bytes:
    at = data.rfind(after) + offset
    return data[:at] + new + data[at + len(new) :]


def _bundle_bomb(shift: int) -> bytes:
    """Eight entries over the same 900 MB, which a megabyte inflates to."""
    triple, size, count = b"hip-amdgcn-amd-amdhsa--gfx942", 900 << 20, 8
    head = b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", count)
    head += b"".join(
        struct.pack("<QQQ", 4096 + n * shift, size, len(triple)) + triple for n in range(count)
    )
    head = head.ljust(4096, b"\0")
    squeeze = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    body = b"\x78\xda" + squeeze.compress(head) + squeeze.flush(zlib.Z_FULL_FLUSH)
    body += (squeeze.compress(bytes(1 << 20)) + squeeze.flush(zlib.Z_FULL_FLUSH)) * 900
    body += squeeze.compress(bytes(8 * shift)) + squeeze.flush()
    body += struct.pack(">I", zlib.adler32(bytes(size + 8 * shift), zlib.adler32(head)))
    plain = 4096 + size + 8 * shift
    return struct.pack("<4sHHQQ8x", b"CCOB", 3, 0, 32 + len(body), plain) + body


def _with(report: dict[str, Any], change: Callable[[dict[str, Any]], object]) -> bytes:
    copy = json.loads(json.dumps(report))
    change(copy)
    return json.dumps(copy).encode()


def _deep(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


REPORTS: dict[str, Callable[[dict[str, Any]], bytes]] = {
    "a list in waits": lambda r: _with(r, lambda d: d["kernels"][0].update(waits=[[1]])),
    "text for tool": lambda r: _with(r, lambda d: d.update(tool="kinspect")),
    "text for notes": lambda r: _with(r, lambda d: d.update(notes="x")),
    "numbers for errors": lambda r: _with(r, lambda d: d.update(errors=[1])),
    "text for a line": lambda r: _with(
        r, lambda d: d["kernels"][0]["memory_ops"][0].update(line="7")
    ),
    "an endless line": lambda r: _with(
        r, lambda d: d["kernels"][0]["loops"][0].update(lines=[[1, 10**18]])
    ),
    "metrics as a list": lambda r: _with(r, lambda d: d["kernels"][0].update(metrics=[])),
    "a list for a figure": lambda r: _with(
        r, lambda d: d["kernels"][0]["metrics"]["vgpr_count"].update(value=[1])
    ),
    "a digest that is a path": lambda r: _with(
        r, lambda d: d["kernels"][0].update(artifacts={"amdgcn": {"sha256": "../x", "bytes": 1}})
    ),
    "5,000 digits": lambda r: json.dumps(r).replace('"schema_version": 2', f'"x": {"9" * 5000}, "schema_version": 2').encode(),  # noqa: E501
    "nested 100,000 deep": lambda r: b"[" * 100_000,
    "places within places": lambda r: b'{"schema_version": 1, "target": "", "tool": {}, "errors": [], "kernels": [' + b'{"source":' * 900 + b"1" + b"}" * 900 + b"]}",  # noqa: E501
}  # fmt: skip

ARCHIVES: dict[str, Callable[[bytes], bytes]] = {
    "a damaged byte": lambda a: _patched(a, b"PK\x03\x04", 120, b"\xff\x00\xff\x13"),
    "an unknown method": lambda a: _patched(a, b"PK\x01\x02", 10, b"\x63\x00"),
    "encrypted": lambda a: _patched(a, b"PK\x01\x02", 8, b"\x01\x00"),
    "lzma": lambda a: _zip(zipfile.ZIP_LZMA),
    "bzip2": lambda a: _zip(zipfile.ZIP_BZIP2),
    "without a report": lambda a: _zip(zipfile.ZIP_DEFLATED, "x"),
    "a bomb": lambda a: _zip_bomb(),
    "a size that is a lie": lambda a: _lying_zip(),
    "cut off": lambda a: a[: len(a) // 2],
}

OTHERS: dict[str, tuple[str, Callable[[], bytes]]] = {
    "a bundle of one image": ("b.co", lambda: _bundle_bomb(0)),
    "a bundle that overlaps": ("b.co", lambda: _bundle_bomb(4096)),
    "sexagesimal metadata": (
        "m.s",
        lambda: (
            GOOD.read_bytes()
            + b"\n.amdgpu_metadata\n---\nx: 1"
            + b":1" * 200_000
            + b"\n...\n.end_amdgpu_metadata\n"
        ),
    ),
    "no UTF-8": ("u.s", lambda: b"\xff\xfe\x00" * 50),
    "half a surrogate": (
        "t.kitrace",
        lambda: (
            b'{"trace": {"schema_version": 2, "kinspect": "0", "command": [], "cwd": "/",'
            b' "status": 0, "\\ud800": 1}}\n'
        ),
    ),
}


def _one_line_each(done: subprocess.CompletedProcess[str], *bad: str) -> None:
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    assert done.returncode == 2, done.stderr
    assert len(lines) == len(bad), done.stderr
    for name in bad:
        (line,) = [line for line in lines if name in line]
        assert line.startswith("kinspect: error: ")
        assert "internal error" not in line
    assert "small" in done.stdout  # the good one is reported


def _limited() -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_CPU, (MOST_SECONDS + 5, MOST_SECONDS + 5))
    resource.setrlimit(resource.RLIMIT_DATA, (2 << 30, 2 << 30))


def _beside_a_good_one(
    folder: Path, files: Mapping[str, bytes]
) -> subprocess.CompletedProcess[str]:
    import sys

    shutil.copy(GOOD, folder / "small.s")
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return subprocess.run(
        [sys.executable, "-m", "kinspect.inspector.cli", "analyze", "small.s", *files],
        cwd=folder, capture_output=True, text=True, preexec_fn=_limited, timeout=120,
        env={**os.environ, "KINSPECT_CACHE_DIR": str(folder / "cache")},
    )  # fmt: skip


def test_damaged_reports_leave_the_others(tmp_path: Path, report: dict[str, Any]) -> None:
    files = {f"{damage}.json": make(report) for damage, make in REPORTS.items()}
    _one_line_each(_beside_a_good_one(tmp_path, files), *files)


BOMBS = ("a bomb", "a size that is a lie")


def test_damaged_archives_leave_the_others(tmp_path: Path, archive: bytes) -> None:
    files = {
        f"{damage}.kinspect": make(archive)
        for damage, make in ARCHIVES.items()
        if damage not in BOMBS
    }
    _one_line_each(_beside_a_good_one(tmp_path, files), *files)


@pytest.mark.parametrize("damage", BOMBS)
def test_an_archive_that_is_a_bomb_leaves_the_others(
    tmp_path: Path, archive: bytes, damage: str
) -> None:
    files = {"bad.kinspect": ARCHIVES[damage](archive)}
    _one_line_each(_beside_a_good_one(tmp_path, files), *files)


def test_dumps_that_shrink_well_are_read_back_and_bombs_are_not(
    tmp_path: Path, report: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What --save writes can be read: a dump of passes repeats the module after each of them."""
    monkeypatch.setattr(limits, "BASE_INFLATED", 1 << 20)
    module = "".join(f"%{n} = arith.addi %{n * 7 % 997}, %c{n * 31 % 89}\n" for n in range(300))
    for data, readable in ((module.encode() * 800, True), (b" " * (64 << 20), False)):
        digest = hashlib.sha256(data).hexdigest()
        changed = json.loads(json.dumps(report))
        changed["kernels"][0]["artifacts"]["passes"] = {"sha256": digest, "bytes": len(data)}
        path = tmp_path / "dump.kinspect"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
            packed.writestr("report.json", json.dumps(changed))
            packed.writestr(f"artifacts/{digest}", data)
        if not readable:
            with pytest.raises(KinspectError, match="inflates to far more"):
                saved.opened(path, tmp_path / "cache").report()
            assert not (tmp_path / "cache" / digest).exists()
            continue
        assert len(data) > 32 * path.stat().st_size + limits.BASE_INFLATED
        (kernel,) = saved.opened(path, tmp_path / "cache").report().kernels
        assert kernel.artifacts["passes"].path.read_bytes() == data


@pytest.mark.parametrize("damage", sorted(OTHERS.keys() - {"sexagesimal metadata"}))
def test_other_damage_leaves_the_others(tmp_path: Path, damage: str) -> None:
    name, make = OTHERS[damage]
    _one_line_each(_beside_a_good_one(tmp_path, {name: make()}), name)


def test_sexagesimal_metadata_costs_nothing_but_itself(tmp_path: Path) -> None:
    name, make = OTHERS["sexagesimal metadata"]
    done = _beside_a_good_one(tmp_path, {name: make()})
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("what", ["nope.s", "none", "x.unknown", "a\x00b.s"])
def test_a_target_that_is_none_leaves_the_others(tmp_path: Path, what: str) -> None:
    shutil.copy(GOOD, tmp_path / "small.s")
    (tmp_path / "none").mkdir()
    (tmp_path / "x.unknown").write_text("x")
    paths = str(tmp_path / "small.s"), what if "\x00" in what else str(tmp_path / what)
    found = pipeline.collect(Request(paths))
    assert [k.name for k in found.kernels] == ["small"]
    (error,) = found.errors
    assert "internal error" not in error.message
    assert error.hint
    with pytest.raises(KinspectError):
        pipeline.collect(Request(paths[1:]))


@pytest.mark.parametrize(
    "line",
    [
        "v_mov_b32 v[{}], v{}",
        "s_waitcnt vmcnt({})",
        "s_mov_b32 s0, {}",
        "s_branch {}",
        "s_setpc_b64 s[{}:{}]",
        "scratch_load_dword v1, off, off offset:{}",
        "scratch_load_dword v1, off, off offset:08",
        "global_load_ushort v1, v[2:3], off offset:08",
        "s_load_dword s4, s[0:1], {}",
        "ds_write_b32 v1, v2 offset:{}",
        "global_load_dword v1, v[2:3], off offset:{}",
    ],
)
def test_numbers_of_thousands_of_digits_are_read_past(tmp_path: Path, line: str) -> None:
    text = GOOD.read_text()
    place = text.index("s_endpgm")
    damaged = f"{text[:place]}{line.replace('{}', '9' * 5000)}\n\t{text[place:]}"
    (tmp_path / "x.s").write_text(damaged)
    report = pipeline.collect(Request((str(tmp_path / "x.s"),)))
    assert not report.errors
    assert [kernel.name for kernel in report.kernels] == ["small"]


# --------------------------------------------------------------------------- bugs of ours


BUGS: tuple[BaseException, ...] = (
    KeyError("x"),
    RecursionError("deep"),
    MemoryError(),
    UnicodeEncodeError("utf-8", "\udcff", 0, 1, "surrogates not allowed"),
    zlib.error("x"),
    AssertionError(),
)


@pytest.mark.parametrize("bug", BUGS, ids=lambda b: type(b).__name__)
def test_a_bug_in_one_target_is_its_error_record(bug: BaseException, tmp_path: Path) -> None:
    names = [str(shutil.copy(GOOD, tmp_path / f"{n}.s")) for n in range(3)]

    def then(report: KernelReport) -> str:
        if "1.s" in report.id:
            raise bug
        return report.name

    found = list(pipeline.transformed_reports(Request(tuple(names)), then))
    made = [e.value for e in found if hasattr(e, "value")]
    (failed,) = [e.error for e in found if hasattr(e, "error")]
    assert made == ["small", "small"]
    assert failed.file == names[1]
    if not isinstance(bug, MemoryError):  # which has a limit's own words
        assert failed.message.startswith(f"internal error of kinspect: {type(bug).__name__}")
        assert "test_hostile_files.py:" in failed.message
        assert "report it" in failed.hint


def test_a_bug_in_a_capture_is_an_error_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kinspect.inspector.capture.targets import Target
    from kinspect.inspector.pipeline import capturing

    def broken(*args: object) -> None:
        raise LookupError("on purpose")

    monkeypatch.setattr(capturing, "_of_ttir", broken)

    class Nothing:
        def toolchain(self) -> Any:
            return type("T", (), {"triton_version": "3.9"})

    target = Target(tmp_path / "k.ttir", "ttir")
    variants, (error,) = capturing.variants_of(target, Request(()), Nothing())  # type: ignore[arg-type]
    assert not variants
    assert error.message.startswith("internal error of kinspect: LookupError: on purpose")


def test_limits_hold_for_one_target_not_for_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kinspect.inspector.capture.resolving import resolve_all

    monkeypatch.setenv("KINSPECT_READ_SECONDS", "0.3")
    targets = resolve_all([str(shutil.copy(GOOD, tmp_path / f"{n}.s")) for n in range(2)])

    def then(report: KernelReport) -> str:
        while "0.s" in report.id:
            with contextlib.suppress(Exception):  # nothing on the way may keep it
                sum(range(1000))
        return report.name

    work = Work(Request(()), then)
    first, second = ([*read_target(n, target, work)] for n, target in enumerate(targets))
    assert "takes more than" in first[0].error.message  # type: ignore[union-attr]
    assert second[0].value == "small"  # type: ignore[union-attr]


# --------------------------------------------------------------------------- names


@pytest.mark.parametrize(
    "command",
    [
        *(("analyze", "--format", form) for form in ("text", "json", "md", "agent")),
        *(("lint", "--fail-on", "never", "--format", form)
          for form in ("text", "json", "sarif", "junit", "github", "md", "agent")),
        ("analyze", "--save", "s.kinspect"),
        ("analyze", "--history"),
        ("report", "-o", "page.html"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_a_file_name_that_is_not_utf_8(
    tool: Tool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.setenv("KINSPECT_DATA_DIR", str(tmp_path / "data"))
    name = os.fsdecode(b"b\xffd.s")
    shutil.copy(GOOD, tmp_path / name)
    done = tool(*command, name)
    assert done.returncode == 0, done.stderr
    if "json" in command or "sarif" in command:
        assert isinstance(json.loads(done.stdout), dict)
    elif command[0] != "report" and command[-1] != "junit":
        assert "small" in done.stdout or "finding" in done.stdout


@pytest.mark.parametrize(
    "command", [("analyze",), ("lint", "--format", "json"), ("report", "-o", "page.html")]
)
def test_such_a_file_that_is_not_there(tool: Tool, command: tuple[str, ...]) -> None:
    missing = tool(*command, os.fsdecode(b"n\xff.s"))
    assert missing.returncode == 2
    assert missing.stderr.count("kinspect: ") == 1
    assert "no such file" in missing.stderr


def test_a_report_of_such_a_file_is_read_back(tool: Tool, tmp_path: Path) -> None:
    name = os.fsdecode(b"b\xffd.s")
    shutil.copy(GOOD, tmp_path / name)
    (tmp_path / "r.json").write_text(tool("analyze", name, "--format", "json", "--details").stdout)
    assert tool("analyze", name, "--save", "r.kinspect").returncode == 0
    for again in ("r.json", "r.kinspect"):
        done = tool("analyze", again)
        assert done.returncode == 0, done.stderr
        assert "small" in done.stdout


# --------------------------------------------------------------------------- other files


@pytest.mark.parametrize("name", ["output_code.py", "kernel.py"])
def test_a_name_of_thousands_of_parts(name: str, tmp_path: Path) -> None:
    """CPython's parser takes memory by the square of them: 4 GB for 20,000."""
    text = "# AOT ID: ['0_inference']\nfrom torch" + "._inductor" * 20_000 + " x\n"
    (tmp_path / name).write_text(text)
    begun = time.process_time()
    with pytest.raises(SyntaxError, match=r"a dotted name of 1,?000 parts or more"):
        python_tree(text)
    with pytest.raises(SyntaxError, match=r"a dotted name of 1,?000 parts or more"):
        syntax.parse(text.encode())
    report = pipeline.collect(Request((str(tmp_path / name),), ("gfx942",)))
    assert report.errors
    assert not report.kernels
    assert time.process_time() - begun < 5


def test_a_baseline_of_absurd_counts(tmp_path: Path) -> None:
    entry = {"kernel": "k", "rule": "r", "message": "m", "fingerprint": "f", "count": 10**18}
    text = json.dumps({"schema_version": 1, "findings": [entry]})
    with pytest.raises(KinspectError, match="over 1,000,000 findings"):
        baseline.parse(text, "b.json")


@pytest.mark.parametrize(
    "text", ["- " * 100_000, "[" * 100_000, "- {M: " + "1:1" * 100_000 + "}", "- !!timestamp x"]
)
def test_gemm_sizes_that_end_other_tools(tmp_path: Path, text: str) -> None:
    from kinspect.inspector.bench.suite.case_files import read_tune_gemm

    with pytest.raises(KinspectError) as caught:
        read_tune_gemm(text, "sizes.yaml")
    assert "sizes.yaml" in str(caught.value)
    assert caught.value.hint


def test_settings_with_a_key_of_100_000_parts(tmp_path: Path) -> None:
    from kinspect.inspector.lint import settings

    file = tmp_path / "pyproject.toml"
    file.write_text("# kinspect\n" + "a." * 100_000 + "a = 1\n")
    with pytest.raises(KinspectError, match=r"pyproject.toml:2: .*over 100 parts"):
        settings.load(start=tmp_path)


@pytest.mark.parametrize("number", ["[NaN]", "1e999"])
def test_a_report_of_numbers_that_json_lacks_is_refused(
    number: str, tmp_path: Path, report: dict[str, Any]
) -> None:
    """What is written of it would be no JSON either."""
    text = json.dumps(report)
    assert '"value": ' in text
    (tmp_path / "r.json").write_text(text.replace('"value": ', f'"value": {number}, "was": ', 1))
    found = pipeline.collect(Request((str(tmp_path / "r.json"),)))
    assert found.errors
