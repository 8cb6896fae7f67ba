"""Thread traces: ours in the decoder's form, and a recording where one is at hand."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from att_files import OBJDUMP, Cost, Listed, Trace, listed, write_trace
from hypothesis import given
from hypothesis import strategies as st
from kinspect.inspector.model.recording import Recording, ThreadTrace
from kinspect.inspector.profile.builder import RecordingBuilder
from kinspect.inspector.profile.readers.att_waves import occupancy
from kinspect.inspector.profile.reading import read

DATA = Path(__file__).parent / "data" / "isa"
OBJECT = DATA / "attend.triton39.gfx950.hsaco"

needs_objdump = pytest.mark.skipif(OBJDUMP is None, reason="no llvm-objdump-22")


@pytest.fixture(scope="module")
def code() -> list[Listed]:
    if OBJDUMP is None:
        pytest.skip("no llvm-objdump-22")
    return listed(OBJECT, "attend")


@pytest.fixture
def run(tmp_path: Path, code: list[Listed]) -> Callable[..., Trace]:
    """Writes a trace in which every wait stalls and one line in ten runs more than once."""

    def written(**options: Any) -> Trace:
        costs = {
            c.address: Cost(hits=1 + n % 10, stall=50 + n, idle=n % 7)
            for n, c in enumerate(code)
            if c.mnemonic.startswith("s_wait") or n % 10 == 3
        }
        costs[code[0].address] = Cost(idle=11)  # from the begin of the wave
        return write_trace(tmp_path / "run", "attend", code, costs, **options)

    return written


def att(path: Path) -> Recording:
    return read(path, names=("att",))


def only(recording: Recording) -> ThreadTrace:
    (trace,) = recording.traces
    return trace


def totals(trace: ThreadTrace) -> dict[int | None, tuple[int, int, int, int | None]]:
    found = {t.place.offset: (t.hits, t.latency, t.stall, t.idle) for t in trace.lines}
    assert len(found) == len(trace.lines)
    return found


def test_a_whole_trace(run: Callable[..., Trace], code: list[Listed]) -> None:
    written = run(waves=6)
    recording = att(written.folder.parent)
    trace = only(recording)
    assert recording.errors == ()
    assert recording.notes == ()
    assert totals(trace) == written.totals
    assert [(t.place.text, t.place.comment or "") for t in trace.lines] == [
        (c.text, c.source) for c in code
    ]
    assert {t.place.code_object for t in trace.lines} == {3}
    assert (trace.kernel, trace.agent, trace.dispatch) == ("attend", "5505", 42)
    assert recording.shapes[trace.lines[0].place.shape or 0].name == "attend"
    assert trace.clock_mhz == pytest.approx(2000)
    assert trace.peak_waves_per_cu == 6
    assert sorted((w.engine, w.cu, w.simd, w.slot) for w in trace.waves) == [
        (1, 1, 0, 0), (1, 1, 0, 1), (1, 1, 1, 0), (1, 1, 1, 1), (1, 1, 2, 0), (1, 1, 3, 0),
    ]  # fmt: skip
    span = min(trace.waves, key=lambda w: w.begin)
    assert span.begin == 1000
    assert span.end == 1000 + sum(s[1] + s[3] for s in written.totals.values()) // 6
    assert [part.name for part in recording.parts] == ["ui_output_agent_5505_dispatch_42"]


@pytest.mark.parametrize("columns", [13, 14])
def test_the_columns_of_newer_versions(run: Callable[..., Trace], columns: int) -> None:
    written = run(columns=columns)
    assert totals(only(att(written.folder))) == written.totals


def test_an_older_decoder_left_the_stalls_to_the_waves(
    run: Callable[..., Trace], code: list[Listed]
) -> None:
    written = run(columns=8)
    written.stats.unlink()
    (written.folder / "occupancy.json").write_text('{"1": [28840296449, 28848693249]}')
    recording = att(written.folder)
    assert totals(only(recording)) == written.totals
    assert recording.errors == ()
    assert len(only(recording).waves) == 2  # of filenames.json
    assert any("packed" in note for note in recording.notes)
    rows = [
        f'3,{i.address},"{i.text}",{",".join(map(str, written.totals[i.address][:2]))},""'
        for i in code
        if i.address in written.totals
    ]
    (written.folder / "code.json").unlink()
    table = written.folder / "att_output.csv"
    table.write_text("\n".join(["CodeObj, Vaddr, Instruction, Hitcount, Latency, Source", *rows]))
    alone = att(table)
    assert {place: sums[:2] for place, sums in totals(only(alone)).items()} == {
        place: sums[:2] for place, sums in written.totals.items()
    }
    assert any("name the trace's whole folder" in note for note in alone.notes)


def test_a_part_that_was_named_alone_says_where_its_code_is(run: Callable[..., Trace]) -> None:
    written = run()
    wave = min(written.folder.glob("se*_wv0.json"))
    (note,) = att(wave).notes
    assert "code.json, which says what its lines are, lies beside it" in note


def test_code_without_counts_is_counted_from_the_waves(run: Callable[..., Trace]) -> None:
    written = run(counted=False, waves=3)
    recording = att(written.folder)
    assert totals(only(recording)) == written.totals
    assert recording.errors == ()


def test_the_csv_alone(run: Callable[..., Trace], code: list[Listed]) -> None:
    written = run()
    shutil.rmtree(written.folder)
    trace = only(att(written.stats))
    assert totals(trace) == written.totals
    assert trace.lines[5].place.text == code[5].text
    assert (trace.kernel, trace.dispatch) == ("attend", 42)
    assert (trace.clock_mhz, trace.peak_waves_per_cu, trace.waves) == (None, None, ())


@pytest.mark.parametrize("code_json", [None, '{"code": null, "version": "3.0.0"}', '{"code": [['])
def test_the_csv_stands_in_for_code_json(run: Callable[..., Trace], code_json: str | None) -> None:
    written = run()
    if code_json is None:
        (written.folder / "code.json").unlink()
    else:
        (written.folder / "code.json").write_text(code_json)
    trace = only(att(written.folder.parent))
    assert totals(trace) == written.totals
    assert trace.clock_mhz == pytest.approx(2000)


@pytest.mark.parametrize("text", ["", "[]", "null", "{", '{"1": 3, "SE1": [3], "metadata": 1}'])
@pytest.mark.parametrize("name", ["occupancy.json", "realtime.json", "filenames.json"])
def test_one_damaged_file_leaves_the_others(
    run: Callable[..., Trace], name: str, text: str
) -> None:
    written = run()
    (written.folder / name).write_text(text)
    recording = att(written.folder)
    trace = only(recording)
    assert totals(trace) == written.totals
    assert (trace.clock_mhz is None) == (name == "realtime.json")
    assert (trace.peak_waves_per_cu is None) == (name == "occupancy.json")
    assert len(trace.waves) == 2  # what one file does not tell of them, the other does
    broken = text in ("", "{") and name != "filenames.json"
    broken |= "SE1" in text and name == "occupancy.json"  # one event of an unknown form
    assert [Path(e.file or "").name for e in recording.errors] == [name] * broken


def test_occupancy_that_is_cut_off_keeps_whole_engines(tmp_path: Path) -> None:
    path = tmp_path / "occupancy.json"
    path.write_text('{"0": [[1, 0, 0, 0, 1, 1], [9, 0, 0, 0, 0, 1]], "1": [[2, 0, 0, 0, 1')
    builder = RecordingBuilder(path)
    spans, peak, _ = occupancy(path, None, builder)
    assert [(s.engine, s.begin, s.end) for s in spans] == [(0, 1, 9)]
    assert peak == 1
    assert len(builder.errors) == 1


def test_waves_are_listed_where_occupancy_is_missing(run: Callable[..., Trace]) -> None:
    written = run(waves=5)
    (written.folder / "occupancy.json").unlink()
    trace = only(att(written.folder))
    assert len(trace.waves) == 5
    assert {w.cu for w in trace.waves} == {None}
    assert trace.peak_waves_per_cu is None


def test_a_cut_wave_file_is_counted_up_to_the_cut(run: Callable[..., Trace]) -> None:
    written = run(counted=False, waves=2)
    path = written.folder / "se1_sm1_sl0_wv0.json"
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    recording = att(written.folder)
    (error,) = recording.errors
    assert "1 of 2 wave files" in error.message
    assert path.name in error.message
    hits = sum(t.hits for t in only(recording).lines)
    whole = sum(t[0] for t in written.totals.values())
    assert whole / 2 < hits < whole


def test_instructions_of_waves_that_code_json_lacks_are_said(run: Callable[..., Trace]) -> None:
    written = run(counted=False, waves=1)
    path = written.folder / "code.json"
    data = json.loads(path.read_text())
    data["code"] = data["code"][:-10]
    path.write_text(json.dumps(data))
    written.stats.unlink()
    recording = att(written.folder)
    lost = sum(t[0] for t in list(written.totals.values())[-10:])
    assert any(note.startswith(f"{lost:,} executed instructions") for note in recording.notes)


def test_no_wave_was_traced(run: Callable[..., Trace]) -> None:
    written = run(counted=False, waves=0)
    recording = att(written.folder)
    assert only(recording).lines == ()
    assert any("--att-target-cu" in note for note in recording.notes)


def test_an_empty_trace(tmp_path: Path) -> None:
    folder = tmp_path / "ui_output_agent_1_dispatch_2"
    folder.mkdir()
    (folder / "code.json").write_text('{"code":null,"version":"3.0.0"}')
    recording = att(folder)
    assert only(recording).lines == ()
    assert any("holds no code" in note for note in recording.notes)


def test_raw_traces_need_the_decoder(tmp_path: Path) -> None:
    (tmp_path / "1234_5505_shader_engine_0_42.att").write_bytes(b"\0" * 64)
    recording = att(tmp_path)
    (error,) = recording.errors
    assert "not decoded" in error.message
    assert "rocprof-trace-decoder" in error.hint


def test_saved_code_objects(run: Callable[..., Trace]) -> None:
    written = run()
    base = written.folder.parent
    (base / "host").mkdir()
    shutil.copy(OBJECT, base / "host" / "1234_code_object_id_3.out")
    shutil.copy(OBJECT, base / "mine_code_object_id_4.out")
    (base / "codeobj_5.out").write_bytes(b"no ELF")
    recording = att(base)
    assert sorted((c.id, c.process, Path(c.path or "").name) for c in recording.code_objects) == [
        (3, 1234, "1234_code_object_id_3.out"),
        (4, None, "mine_code_object_id_4.out"),
    ]
    assert [Path(e.file or "").name for e in recording.errors] == ["codeobj_5.out"]
    assert {t.place.process for t in only(recording).lines} == {1234}
    shutil.copy(OBJECT, base / "host" / "5678_code_object_id_3.out")
    assert {t.place.process for t in only(att(base)).lines} == {None}  # either may be traced


def test_several_traces_at_any_depth(run: Callable[..., Trace], tmp_path: Path) -> None:
    one, two = run(dispatch=1), run(dispatch=2)
    deep = tmp_path / "run" / "a" / "b"
    deep.mkdir(parents=True)
    shutil.move(two.folder, deep)
    shutil.move(two.stats, deep)
    recording = att(tmp_path)
    assert [t.dispatch for t in recording.traces] == [2, 1]
    assert [totals(t) for t in recording.traces] == [two.totals, one.totals]
    assert len(recording.shapes) == 1


def test_a_folder_of_another_name_keeps_what_is_not_of_the_trace(
    run: Callable[..., Trace], tmp_path: Path
) -> None:
    written = run()
    folder = tmp_path / "flat"
    shutil.move(written.folder, folder)
    (folder / "kernel_trace.csv").write_text("Kind,Kernel_Name\n")
    from kinspect.inspector.profile.readers import att as reader

    (group,) = reader.find(sorted(folder.iterdir()))
    assert "kernel_trace.csv" not in {f.name for f in group.files}
    assert len(group.files) == len(list(folder.iterdir())) - 1
    assert totals(only(att(folder))) == written.totals
    assert only(att(folder)).dispatch is None
    assert totals(only(att(folder / "code.json"))) == written.totals


def test_code_of_two_kernels_is_told_apart(tmp_path: Path) -> None:
    rows = [
        ["; f", 0, 0, "float", 1, 256, 0, 0, 0, 0],
        ["s_nop 0", 0, 1, "a.py:1", 1, 256, 1, 4, 0, 0],
        ["; _Z6secondv", 0, 2, "second()", 1, 512, 0, 0, 0, 0],
        ["s_nop 0", 0, 3, "a.py:2", 1, 512, 2, 8, 0, 0],
    ]
    (tmp_path / "code.json").write_text(json.dumps({"code": rows, "version": "3.0.0"}))
    recording = att(tmp_path)
    names = [recording.shapes[t.place.shape or 0].name for t in only(recording).lines]
    assert names == ["f", "second()"]  # a demangler takes `f` for a type
    assert only(recording).kernel is None


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ([2, 3, 4, [0, 0, 4, 0, 0, 0, 0, 0, 0]], ("stochastic", 7, 3, {"WAITCNT": 4})),
        ([1, 0, 0, [0] * 9], ("host_trap", 7, None, {})),
    ],
)
def test_pc_samples_with_a_service_type(
    tmp_path: Path, columns: list[Any], expected: tuple[Any, ...]
) -> None:
    """14 columns: hits are the samples, reasons begin with the enumeration's value 1."""
    rows = [["s_waitcnt vmcnt(0)", 0, 0, "a.py:1", 1, 256, 7, 0, 0, 0, *columns]]
    (tmp_path / "code.json").write_text(json.dumps({"code": rows}))
    (sample,) = att(tmp_path).samples
    assert (sample.method, sample.count, sample.issued, dict(sample.reasons)) == expected
    assert att(tmp_path).traces == ()
    (part,) = att(tmp_path).parts
    assert part.format == "rocprofv3 PC samples by address"  # and no thread trace


def test_pc_samples_without_a_service_type(tmp_path: Path) -> None:
    """13 columns: issued and stalled, reasons by the enumeration's value; the sums tell which."""
    reasons = [0, 0, 1, 8, 0, 0, 0, 0, 0, 0]
    rows = [
        ["s_waitcnt vmcnt(0)", 0, 0, "", 1, 256, 0, 0, 0, 0, 1, 9, reasons],
        ["s_nop 0", 0, 1, "", 1, 260, 0, 0, 0, 0, 2, 0, [0] * 10],
        ["s_endpgm", 0, 2, "", 1, 264, 0, 0, 0, 0, 0, 0, [0] * 10],
    ]
    (tmp_path / "code.json").write_text(json.dumps({"code": rows}))
    first, second = att(tmp_path).samples
    assert (first.method, first.count, first.issued) == ("stochastic", 10, 1)
    assert first.reasons == {"ALU_DEPENDENCY": 1, "WAITCNT": 8}
    assert (second.method, second.count, second.issued) == ("stochastic", 2, 2)
    (tmp_path / "code.json").write_text(json.dumps({"code": rows[1:]}))
    (alone,) = att(tmp_path).samples
    assert (alone.method, alone.count, alone.issued) == ("host_trap", 2, None)


def test_rows_of_unknown_form_are_counted(tmp_path: Path) -> None:
    rows = [
        ["s_nop 0", 0, 0, None, 1, 256, 1, 4, 0, 0],
        ["s_nop 0", 0],
        "row",
        ["s_nop 0", 0, 0, "", 1, "x", 1, 4, 0, 0],
    ]
    (tmp_path / "code.json").write_text(json.dumps({"code": rows}))
    recording = att(tmp_path)
    assert len(only(recording).lines) == 1
    assert [e.message for e in recording.errors] == ["3 rows are of an unknown form"]


@pytest.mark.parametrize(
    ("text", "message", "count"),
    [
        ("Kind,Name\n1,2\n", "no column", 0),
        ("", "no column", 0),
        (
            "CodeObj,Vaddr,Instruction,Hitcount,Latency,Stall,Idle,Source\n"
            '1,256,"s_nop 0",1,4,0,0,"a.py:1"\n1,260,"s_no',
            "cut off",
            1,
        ),
    ],
)
def test_damaged_csv(tmp_path: Path, text: str, message: str, count: int) -> None:
    path = tmp_path / "stats_ui_output_agent_1_dispatch_1.csv"
    path.write_text(text)
    recording = att(path)
    assert [message in e.message for e in recording.errors] == [True]
    assert len(only(recording).lines) == count


# ------------------------------------------------------------------------------ occupancy


@st.composite
def histories(draw: st.DrawFn) -> list[list[int]]:
    """Waves on the slots of some CUs, each slot taken by one wave at a time."""
    events = []
    slots = st.tuples(st.integers(0, 2), st.integers(0, 1), st.integers(0, 2))
    for cu, simd, slot in draw(st.sets(slots, max_size=8)):
        now = 0
        for gap, length in draw(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 9)))):
            events += [
                [now + gap, cu, simd, slot, 1, 1],
                [now + gap + length, cu, simd, slot, 0, 1],
            ]
            now += gap + length
    return sorted(events, key=lambda e: e[0])


@given(histories())
def test_occupancy_is_what_counting_at_each_time_gives(
    tmp_path_factory: pytest.TempPathFactory, events: list[list[int]]
) -> None:
    path = tmp_path_factory.mktemp("occupancy") / "occupancy.json"
    path.write_text(json.dumps({"2": events, "dispatches": {"1": "k"}, "version": "3.0.0"}))
    builder = RecordingBuilder(path)
    spans, peak, kernel = occupancy(path, None, builder)
    assert not builder.errors
    most = 0
    for time in {e[0] for e in events}:
        for cu in range(3):
            before = [e for e in events if e[1] == cu and e[0] <= time]
            most = max(most, sum(1 if e[4] else -1 for e in before))
    assert (peak or 0) == most
    assert len(spans) == len(events) // 2
    assert sum((s.end or 0) - s.begin for s in spans) == sum(
        -e[0] if e[4] else e[0] for e in events
    )
    assert kernel == ("k" if events else None)


def test_waves_that_the_trace_cut_at_either_end(tmp_path: Path) -> None:
    path = tmp_path / "occupancy.json"
    events = [[5, 0, 0, 0, 0, 1], [6, 0, 0, 1, 1, 1], [7, 0, 0, 0, 1, 1], [9, 0, 0, 0, 0, 1]]
    path.write_text(json.dumps({"0": [*events, ["x"]], "dispatches": {"1": "3 / 0x10"}}))
    builder = RecordingBuilder(path)
    spans, peak, kernel = occupancy(path, None, builder)
    assert [(s.slot, s.begin, s.end) for s in spans] == [(1, 6, None), (0, 7, 9)]
    assert peak == 2
    assert kernel is None
    assert any("1 waves began before" in note for note in builder.notes)
    assert [e.message for e in builder.errors] == ["1 events are of an unknown form"]


# ------------------------------------------------------------------------------ a recording


def samples() -> Path:
    """The folder of recordings made elsewhere, which is not part of the project."""
    named = os.environ.get("KINSPECT_SAMPLES")
    if not named:
        pytest.skip("KINSPECT_SAMPLES names no folder of recordings")
    found = sorted(Path(named).rglob("ui_output_agent_*_dispatch_*"))
    if not found:
        pytest.skip("no thread trace among the recordings")
    return found[0]


def test_a_recording_of_an_attention_kernel() -> None:
    """MI350X: 8 waves on every traced CU; 222,508 and 222,512 clocks in 10,388 ticks of 100 MHz."""
    folder = samples()
    recording = att(folder)
    trace = only(recording)
    assert recording.errors == ()
    assert trace.clock_mhz == pytest.approx(222_510 / 10_388 * 100)
    assert round(trace.clock_mhz or 0) == 2142
    assert trace.peak_waves_per_cu == 8
    assert trace.kernel == "flash_attn_dualwave_swp_gfx950_kernel_0"
    assert len(trace.waves) == 128
    for cu in {(w.engine, w.cu) for w in trace.waves}:
        mine = [w for w in trace.waves if (w.engine, w.cu) == cu]
        times = {w.begin for w in mine}
        assert max(sum(w.begin <= t < (w.end or t + 1) for w in mine) for t in times) == 8
