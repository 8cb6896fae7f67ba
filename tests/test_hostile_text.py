"""Strangers' texts steer no terminal, on no way out, and are no command to a CI runner."""

from __future__ import annotations

import io
import json
import re
import sys
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kinspect.inspector.base.errors import KinspectError
from kinspect.inspector.base.streams import PlainStream, no_commands
from kinspect.inspector.cli.main import main
from kinspect.inspector.cli.options import result_stream
from kinspect.inspector.formats.html import page
from kinspect.inspector.model import Report
from kinspect.inspector.pipeline.analysis import analyze_text
from kinspect.inspector.pipeline.analysis_options import Context
from kinspect.inspector.pipeline.collecting import collect
from kinspect.inspector.pipeline.jobs import Request
from kinspect.inspector.present.markdown import code, inline
from kinspect.inspector.report import json_write as json_v1
from kinspect.inspector.report import saved

SMALL = Path(__file__).parent / "data" / "small_gfx942.s"
ESCAPES = "\x1b]0;owned\x07\x1b[2J\x9b31m\x1b]8;;http://x\x1b\\"
RUNNERS = "##vso[task.prependpath]x ##teamcity[x] ##[error]"
EVIL = f"{ESCAPES}\u202e{RUNNERS}"
STEERING = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def steering(text: str) -> set[str]:
    """Characters of a text that a terminal would obey."""
    return {c for c in text if unicodedata.category(c) in STEERING} - {"\n", "\t", "\r"}


def commands(text: str) -> list[str]:
    """Lines that a runner of GitHub, Azure Pipelines or TeamCity takes for commands."""
    anywhere = re.compile(r"##(vso|teamcity)?\[", re.IGNORECASE)
    return [
        line for line in text.splitlines() if line.strip().startswith("::") or anywhere.search(line)
    ]


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Assembly whose symbol, source path and comments hold what they can, and a report of it."""
    folder = tmp_path_factory.mktemp(f"f{ESCAPES.replace('/', '')}")
    text = SMALL.read_text()
    (name,) = re.findall(r"^\t\.globl\t(\w+)", text, re.MULTILINE)[:1]
    text = text.replace(name, f'"{name}{EVIL}"')
    (folder / f"k{ESCAPES.replace('/', '')}.s").write_text(text)
    report = collect(Request((str(SMALL),)))
    stream = io.StringIO()
    json_v1.write(report, stream)
    document = json.loads(stream.getvalue())
    for kernel in document["kernels"]:
        kernel["name"] += f"{EVIL}\n::error::x"
        kernel["notes"].append(f"n{EVIL}\n::error::note")
        for finding in kernel["findings"]:
            finding["message"] += f"{EVIL}\n  ::error::message"
    document["notes"].append(f"::error::note {EVIL}")
    document["errors"].append(
        {
            "file": f"::error::f{EVIL}",
            "kernel": f"k{EVIL}",
            "stage": "compile",
            "message": f"::m{EVIL}",
            "hint": f"h{EVIL}",
            "output": f"\n::error::o{EVIL}\n",
        }
    )
    (folder / "saved.json").write_text(json.dumps(document))
    return folder


WAYS = [
    ["analyze", "T"],
    ["analyze", "T", "--color"],
    ["analyze", "T", "--format", "md"],
    ["analyze", "T", "--format", "json"],
    ["analyze", "T", "--format", "json", "--details"],
    ["analyze", "T", "--format", "agent"],
    ["lint", "T", "--format", "agent"],
    ["lint", "T"],
    ["lint", "T", "--color"],
    ["lint", "T", "--format", "md"],
    ["lint", "T", "--format", "json"],
    ["lint", "T", "--format", "sarif"],
    ["lint", "T", "--format", "junit"],
    ["lint", "T", "--format", "github"],
    ["lint", "T", "--select", "KI001", "--update-baseline", "--baseline", "T/x"],
    ["diff", "T", "saved.json"],
    ["diff", "T", "saved.json", "--format", "md"],
    ["report", "T", "-o", "/dev/stdout"],
    ["passes", "T"],
    ["profile", "import", "T"],
    ["bench", "T"],
    ["check", "T"],
    ["kernels", "show", "T"],
    ["sweep", "T", "--set", f"a{EVIL}=1"],
    ["history", "show", f"::{EVIL}"],
    ["rules", "check", "T"],
    ["rules", "show", f"::{EVIL}"],
    ["arch", f"::{EVIL}"],
    ["occupancy", "--arch", f"::{EVIL}"],
    ["env", "set", f"::{EVIL}"],
    ["fault", "import", "T"],
    ["record", f"no{EVIL}"],
    ["analyze", f"none{EVIL}.s"],
    ["analyze", f"--bad{EVIL}"],
    [f"no-such{EVIL}"],
]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: " ".join(way).encode("ascii", "ignore"))
@pytest.mark.parametrize("target", ["k*.s", "saved.json"])
def test_every_way_out(
    hostile: Path,
    way: list[str],
    target: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    if target == "saved.json" and "T" not in way:
        pytest.skip("the same")
    monkeypatch.chdir(hostile)
    for name in ("KINSPECT_DATA_DIR", "KINSPECT_STATE_DIR", "KINSPECT_CACHE_DIR"):
        monkeypatch.setenv(name, str(tmp_path))
    (found,) = hostile.glob(target)
    main([found.name if word == "T" else word for word in way])
    done = capfd.readouterr()
    assert "internal error" not in done.err
    colours = re.compile("\x1b\\[[0-9;]*m") if "--color" in way else None
    for text in (done.out, done.err):
        shown = colours.sub("", text) if colours else text
        assert steering(shown) == set()
        if "github" in way and text is done.out:
            assert all(re.match("::(error|warning|notice) ", c) for c in commands(shown))
        elif "report" not in way:
            assert commands(shown) == []


def test_a_symbol_is_kept_as_it_is(hostile: Path) -> None:
    (found,) = hostile.glob("k*.s")
    report = collect(Request((str(found),)))
    assert report.kernels
    assert all(steering(k.name) == set() for k in report.kernels)
    assert any("\\u001b]0;owned" in k.name for k in report.kernels)


def test_errors_are_clean_where_they_are_made() -> None:
    error = KinspectError(f"a\n{EVIL}", f"b{EVIL}")
    assert steering(str(error)) == set()
    assert error.message.startswith("a\n\\u001b]0;owned\\u0007")


def test_an_archive_names_no_other_file(tmp_path: Path) -> None:
    report: Report = collect(Request((str(SMALL),)))
    stream = io.StringIO()
    json_v1.write(report, stream)
    document = json.loads(stream.getvalue())
    import zipfile

    for digest in ("/etc/passwd", "../secret", "A" * 64):
        document["kernels"][0]["artifacts"] = {"amdgcn": {"sha256": digest, "bytes": 1}}
        with zipfile.ZipFile(tmp_path / "x.kinspect", "w") as archive:
            archive.writestr("report.json", json.dumps(document))
        with pytest.raises(KinspectError, match="damaged report"):
            saved.opened(tmp_path / "x.kinspect", tmp_path / "cache").report()


# --------------------------------------------------------------------------- streams


def written(pieces: list[str], *, log: bool = True) -> str:
    out = io.StringIO()
    stream = PlainStream(out, log=log)
    for piece in pieces:
        stream.write(piece)
        stream.flush()
    return out.getvalue()


@pytest.mark.parametrize(
    ("pieces", "shown"),
    [
        (["::error::x\n"], "\\::error::x\n"),
        (["a\n \t::error::x"], "a\n \t\\::error::x"),
        ([":", ":error::x"], ":\\:error::x"),
        (["  ", "::", "error"], "  \\::error"),
        (["a", "::b\n", "::c"], "a::b\n\\::c"),
        (["a ##[error]b"], "a ##\\u005berror]b"),
        (["#", "#", "[error]"], "##\\u005berror]"),
        (["a ##vso[x]", "::b"], "a ##vso\\u005bx]::b"),
        (["##VSO[x] ##", "team", "city", "[y]\n::"], "##VSO\\u005bx] ##teamcity\\u005by]\n\\::"),
        (["##vso ##x[y]"], "##vso ##x[y]"),
        (["a\r\nb"], "a\r\nb"),
        (["std::vector<x::y>"], "std::vector<x::y>"),
        (["## [x](y)\n"], "## [x](y)\n"),
    ],
)
def test_no_line_is_a_command(pieces: list[str], shown: str) -> None:
    assert written(pieces) == shown
    assert commands(written(pieces)) == []
    assert written(pieces, log=False) == "".join(pieces)
    assert commands(no_commands("".join(pieces))) == []


@given(
    st.lists(
        st.text(st.sampled_from(":: #[]\n\tax\x1b\u3000"), max_size=6)
        | st.sampled_from(("##vso", "##teamcity"))
    )
)
def test_however_it_is_cut(pieces: list[str]) -> None:
    out = written(pieces)
    assert commands(out) == []
    assert steering(out) <= {"\u3000"}


@given(st.dictionaries(st.text(), st.text(st.characters(exclude_categories=()))))
def test_json_passes_without_loss(value: dict[str, str]) -> None:
    for ascii_only in (True, False):
        assert json.loads(written([json.dumps(value, ensure_ascii=ascii_only, indent=1)])) == value


def test_a_stream_that_cannot_encode(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    stream = PlainStream(io.TextIOWrapper(raw, encoding="ascii", write_through=True))
    stream.write("3 × 4\n")
    stream.flush()
    assert raw.getvalue() == b"3 \\xd7 4\n"
    with pytest.raises(TypeError):
        stream.write(b"")  # type: ignore[arg-type]


def test_style_sheets_are_no_commands(tmp_path: Path) -> None:
    report = collect(Request((str(SMALL),)))
    write: Callable[[TextIO], None] = lambda stream: page.write_report(report, [], stream)  # noqa: E731
    plain = io.StringIO()
    write(plain)
    with result_stream(tmp_path / "page.html", log=False) as stream:
        write(stream)
    assert (tmp_path / "page.html").read_text() == plain.getvalue()


# --------------------------------------------------------------------------- Markdown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a `b<c>` d", "a `b<c>` d"),
        ("<img src=x onerror=y>", "&lt;img src=x onerror=y&gt;"),
        ("![x](y)", "!\\[x]\\(y)"),
        ("![x](http://y)", "`![x](http://y)`"),
        ("@maintainer a @ b", "`@maintainer` a &#64; b"),
        ("fixes a/b#1, gh-2 (www.x.org)", "fixes `a/b#1,` `gh-2` `(www.x.org)`"),
        ("`a`https://b`c`", "`a` `https://b` `c`"),
        ("high-1 k.0 #x std::a", "high-1 k.0 #x std::a"),
        ("a ` <b>", "a \\` &lt;b&gt;"),
        ("`ds_read_b64` of x[0]", "`ds_read_b64` of x[0]"),
        ("a\nb\x1b", "a b\\u001b"),
    ],
)
def test_markdown_shows_texts_as_they_are(text: str, shown: str) -> None:
    assert inline(text) == shown


def test_markdown_code() -> None:
    assert code("k<int>") == "`k<int>`"
    assert code("k`<b>`") == "`` k`<b>` ``"


_NINES = "9" * 5000


@pytest.mark.parametrize(
    "line",
    [
        "s_add_u32 s0",
        "s_addc_u32",
        "buffer_load_dword offen",
        "v_ashrrev_i32 v1",
        "v_lshl_add_u32 v0, v0",
        "v_mov_b32 v0",
        f"v_mov_b32 v{_NINES}, 1",
        f"v_mov_b32 v[0:{_NINES}], 1",
        f"v_mfma_f32_{_NINES}x4x4f32 a[0:3], v0, v1, a[0:3]",
        f";DEBUG_VALUE: k:a <- $vgpr{_NINES}",
    ],
    ids=lambda line: line[:24],
)
def test_an_instruction_that_is_cut_short_or_too_long_is_read(line: str) -> None:
    text = (SMALL.parent / "isa" / "stack.llvm14.gfx90a.s").read_text()
    in_text = re.sub(r"^\ts_endpgm|^\.LBB", rf"\t{line}\n\g<0>", text, flags=re.MULTILINE)
    assert in_text != text
    assert analyze_text(in_text, Context("k.s"))


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("rules/fixtures/hip_lanes_gfx942.s", "v_lshl_add_u32"),
        ("rules/fixtures/hip_strides_gfx942.s", "v_lshl_add_u64"),
        ("tests/data/emulator/ieee_dot.triton-3.9.gfx942.s", "v_add_lshl_u32"),
    ],
)
def test_sums_of_a_loop_that_are_cut_short_are_read(file: str, name: str) -> None:
    text = (SMALL.parents[2] / file).read_text()
    cut = re.sub(rf"^(\t{name} +[^,\n]+, [^,\n]+), .*", r"\1", text, flags=re.MULTILINE)
    assert cut != text
    assert analyze_text(cut, Context(file))


def test_click_writes_through_the_stream_where_the_encoding_is_ascii(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    raw = io.BytesIO()
    stream = PlainStream(io.TextIOWrapper(raw, encoding="ascii", errors="backslashreplace"))
    monkeypatch.setattr(sys, "stdout", stream)
    click.echo("::set-output name=a::b")
    stream.flush()
    assert raw.getvalue() == b"\\::set-output name=a::b\n"
