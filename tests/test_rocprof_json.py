"""rocprofv3's JSON: against the SDK's own schema, sums worked out by hand, and damaged files.

All files here are made up; no recording in this format was at hand.
"""

from __future__ import annotations

import gzip
import io
import json
import math
import os
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from kinspect.inspector.base.errors import KinspectError
from kinspect.inspector.model.recording import NONE, Recording
from kinspect.inspector.profile import reading
from kinspect.inspector.profile.readers import results_json
from kinspect.inspector.profile.readers.agents import agent
from kinspect.inspector.profile.readers.json_stream import DamagedError, JsonStream
from kinspect.inspector.profile.readers.pc_samples import reason
from profile_files import (
    LOAD_BASE,
    Kernel,
    Launch,
    PcSample,
    Program,
    program,
    sdk_agent,
    sdk_process,
    write_results,
)


def imported(path: Path) -> Recording:
    return reading.read(path, ("results_json",))


def written(path: Path, document: Any) -> Path:
    path.write_text(json.dumps(document))
    return path


def counters(recording: Recording) -> dict[int, dict[str, float]]:
    """Sums by row."""
    found: dict[int, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    values = recording.values
    for row, counter, value in zip(values.dispatch, values.counter, values.value, strict=True):
        found[row][recording.counters[counter]] += value
    return found


# --------------------------------------------------------------------------- what is in it


@pytest.mark.parametrize("version", ["0.5", "1.0"])
def test_made_up_files_are_of_the_sdk_s_schema(version: str) -> None:
    named = os.environ.get("KINSPECT_SAMPLES")
    found = sorted(Path(named).rglob(f"rocprofv3-schema.sdk-{version}.0.json")) if named else []
    if not found:
        pytest.skip("KINSPECT_SAMPLES names no folder with the SDK's schemas")
    schema = json.loads(found[0].read_text())
    jsonschema.Draft7Validator.check_schema(schema)
    document = {"rocprofiler-sdk-tool": [sdk_process(program(), version)]}
    jsonschema.Draft7Validator(schema).validate(document)
    del document["rocprofiler-sdk-tool"][0]["kernel_symbols"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft7Validator(schema).validate(document)


@pytest.mark.parametrize("version", ["0.5", "1.0"])
def test_dispatches_and_counters_of_every_version(tmp_path: Path, version: str) -> None:
    recording = imported(write_results(tmp_path / "1_results.json", program(), version=version))
    assert recording.errors == ()
    assert recording.command == ("python", "gemm.py")
    assert dict(recording.tool) == {"name": "rocprofv3"}
    table = recording.dispatches
    assert list(table.number) == list(range(1, 10))
    assert list(table.start) == [1_000_000 + 10_000 * index for index in range(9)]
    lengths = [end - start for start, end in zip(table.start, table.end, strict=True)]
    assert lengths == [1000, 2000, 3000] * 3
    first, second, third = recording.shapes
    assert (first.name, first.kernel_id, first.code_object) == ("matmul_kernel", 7, 1)
    assert (first.vgpr, first.sgpr, first.lds_bytes) == (128, 96, 32768)
    assert (second.name, second.kernel_id, second.vgpr) == ("matmul_kernel", 8, 64)
    assert third.name == "void copy<float>(float*, int)"
    assert (third.workgroup, third.grid_size, third.process) == ((256, 1, 1), 65536, 4242)
    assert {shape.agent for shape in recording.shapes} == {"4"}
    # Two shader engines' worth of waves, and the clock of eight XCCs: 100 + 28, 8 · 500.
    assert len(counters(recording)) == 9
    for sums in counters(recording).values():
        assert sums == {"SQ_WAVES": 128.0, "GRBM_GUI_ACTIVE": 4000.0}


def test_agents_are_named_by_their_nodes(tmp_path: Path) -> None:
    recording = imported(write_results(tmp_path / "1_results.json", replace(program(), node=6)))
    cpu, gpu = recording.agents
    assert (cpu.key, cpu.kind, cpu.arch, cpu.cus) == ("0", "cpu", None, None)
    assert (gpu.key, gpu.kind, gpu.arch, gpu.product) == (
        "6",
        "gpu",
        "gfx942",
        "AMD Instinct MI300X",
    )
    assert (gpu.cus, gpu.simds_per_cu, gpu.xccs, gpu.shader_engines) == (304, 4, 8, 32)
    assert (gpu.wave_size, gpu.max_waves_per_simd, gpu.clock_mhz) == (64, 8, 2100)
    assert gpu.lds_bytes == 65536
    assert {shape.agent for shape in recording.shapes} == {"6"}


@pytest.mark.parametrize(
    ("number", "arch"),
    [(90402, "gfx942"), (90010, "gfx90a"), (110000, "gfx1100"), (90500, "gfx950"), (0, None)],
)
def test_arch_from_the_driver_s_number(number: int, arch: str | None) -> None:
    about = sdk_agent(1, 1, "gfx942") | {"gfx_target_version": number, "name": ""}
    assert agent("1", about).arch == arch


def test_samples_are_added_up_by_place(tmp_path: Path) -> None:
    recording = imported(write_results(tmp_path / "1_results.json", program()))
    trap, stalled, other = recording.samples
    assert (trap.method, trap.count, trap.issued, trap.lanes) == ("host_trap", 3, None, 64.0)
    assert (trap.place.text, trap.place.comment) == ("s_waitcnt vmcnt(0)", "gemm.py:17")
    assert (stalled.method, stalled.count, stalled.issued) == ("stochastic", 3, 1)
    assert dict(stalled.reasons) == {"waitcnt": 1, "alu_dependency": 1}
    assert stalled.lanes == pytest.approx((64 + 8 + 64) / 3)
    # Dispatches 1 and 4 are of one shape; the file's addresses are those of the load base here.
    assert stalled.place.shape == trap.place.shape == 0
    assert (stalled.place.process, stalled.place.code_object) == (4242, 1)
    assert stalled.place.offset == 0x1F18
    assert recording.shapes[other.place.shape or 0].kernel_id == 8
    assert (other.place.code_object, other.lanes, other.issued) == (2, 1.0, 1)


def test_addresses_are_those_of_the_file(tmp_path: Path) -> None:
    """A loader that put the file's address 0x1000 first: the offset is from there, not from 0."""
    document = sdk_process(replace(program(), samples=[PcSample(1, 0x10), PcSample(99, 0, 0)]))
    found = document["code_objects"][0]
    found["load_delta"] = found["load_base"] - 0x1000
    unknown = document["buffer_records"]["pc_sample_host_trap"][1]["record"]["pc"]
    unknown["code_object_offset"] = found["load_base"] + 0x30
    path = written(tmp_path / "1_results.json", {"rocprofiler-sdk-tool": [document]})
    known, by_address = (sample.place for sample in imported(path).samples)
    assert (known.code_object, known.offset) == (1, 0x1010)
    assert (by_address.code_object, by_address.offset) == (1, 0x1030)
    assert by_address.shape is None  # dispatch 99 is not in the file


def test_a_sample_of_code_that_nothing_loaded(tmp_path: Path) -> None:
    what = replace(program(), samples=[PcSample(1, 0x1234, code_object=0)])
    (sample,) = imported(write_results(tmp_path / "1_results.json", what)).samples
    assert (sample.place.code_object, sample.place.offset) == (None, None)


def test_code_objects_and_their_copies(tmp_path: Path) -> None:
    document = sdk_process(program())
    document["strings"]["code_object_snapshot_filenames"] = ["", "first.out", "gone.out"]
    (tmp_path / "first.out").write_bytes(b"\x7fELF")
    path = written(tmp_path / "1_results.json", {"rocprofiler-sdk-tool": [document]})
    first, second, _ = imported(path).code_objects
    assert (first.id, first.process, first.load_base) == (1, 4242, LOAD_BASE + 0x10_0000)
    assert first.uri == "memory://4242#offset=0x55d001000&size=9000"
    assert first.load_size == 0x8000
    assert first.path == str(tmp_path / "first.out")
    assert second.path is None  # named, but not there
    document["strings"]["code_object_snapshot_filenames"] = [{"key": 2, "value": "first.out"}]
    path = written(tmp_path / "2_results.json", {"rocprofiler-sdk-tool": [document]})
    assert [found.path for found in imported(path).code_objects] == [
        None,
        str(tmp_path / "first.out"),
        None,
    ]


def test_reasons_in_words() -> None:
    assert reason("ROCPROFILER_PC_SAMPLING_INSTRUCTION_NOT_ISSUED_REASON_ALU_DEPENDENCY") == (
        "alu_dependency"
    )
    assert reason("WAITCNT") == "waitcnt"
    assert [reason(number) for number in (3, 5, 99)] == ["waitcnt", "barrier_wait", "reason 99"]


def test_two_processes_with_the_same_ids(tmp_path: Path) -> None:
    path = write_results(tmp_path / "1_results.json", program(), program(4300))
    recording = imported(path)
    assert len(recording.dispatches) == 18
    assert [shape.process for shape in recording.shapes] == [4242] * 3 + [4300] * 3
    assert sum(sum(sums.values()) for sums in counters(recording).values()) == 18 * 4128
    assert {found.process for found in recording.code_objects} == {4242, 4300}
    assert {found.place.process for found in recording.samples} == {4242, 4300}


def test_records_before_what_they_refer_to(tmp_path: Path) -> None:
    document = sdk_process(program())
    straight = imported(written(tmp_path / "1_results.json", {"rocprofiler-sdk-tool": [document]}))
    document["buffer_records"] = dict(reversed(document["buffer_records"].items()))
    backwards = dict(reversed(document.items()))
    turned = imported(written(tmp_path / "2_results.json", {"rocprofiler-sdk-tool": [backwards]}))
    assert turned.shapes == straight.shapes
    assert turned.dispatches == straight.dispatches
    assert turned.samples == straight.samples
    assert turned.agents == straight.agents
    assert counters(turned) == counters(straight)
    assert turned.errors == ()


def test_counters_without_a_kernel_trace(tmp_path: Path) -> None:
    """Counters alone were asked for; versions before 1.0 give no times then."""
    for version, start in (("0.5", NONE), ("1.0", 1_000_000)):
        document = sdk_process(program(), version)
        document["buffer_records"]["kernel_dispatch"] = []
        path = written(tmp_path / f"{version}_results.json", {"rocprofiler-sdk-tool": [document]})
        recording = imported(path)
        assert len(recording.dispatches) == 9
        assert recording.dispatches.start[0] == start
        assert recording.shapes[0].vgpr == 128
        assert counters(recording)[8]["SQ_WAVES"] == 128.0


def test_the_profiler_s_own_statistics_where_it_kept_no_dispatches(tmp_path: Path) -> None:
    def summary(launches: list[Launch]) -> Recording:
        document = sdk_process(replace(program(), launches=launches, samples=[]))
        about = {"count": 3, "sum": 6000, "sqr": 14_000_000, "min": 1000, "max": 3000, "mean": 2e3}
        document["summary"] = [
            {"domain": "HIP_API", "stats": {"operations": [{"key": "hipMalloc", "value": about}]}},
            {"domain": "KERNEL_DISPATCH", "stats": {"operations": [{"key": "k", "value": about}]}},
        ]
        path = written(tmp_path / "1_results.json", {"rocprofiler-sdk-tool": [document]})
        return imported(path)

    (top,) = summary([]).summary
    assert (top.name, top.calls, top.total_ns, top.mean_ns) == ("k", 3, 6000, 2000)
    assert (top.min_ns, top.max_ns) == (1000, 3000)
    assert summary([Launch(7, 1, 10, 20)]).summary == ()


def test_unknown_kernels_and_counters_are_named_by_their_ids(tmp_path: Path) -> None:
    document = sdk_process(program())
    document["kernel_symbols"] = []
    document["counters"] = []
    path = written(tmp_path / "1_results.json", {"rocprofiler-sdk-tool": [document]})
    recording = imported(path)
    assert {shape.name for shape in recording.shapes} == {"kernel 7", "kernel 8", "kernel 9"}
    assert recording.counters == ("counter 1000", "counter 1001")


def test_packed(tmp_path: Path) -> None:
    plain = write_results(tmp_path / "1_results.json", program())
    packed = tmp_path / "2_results.json.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert imported(packed).dispatches == imported(plain).dispatches


# --------------------------------------------------------------------------- strange and damaged


def test_values_that_are_no_numbers_are_left_out(tmp_path: Path) -> None:
    """The SDK's writer puts NaN and Infinity into its JSON, which is none then."""
    launches = [
        Launch(7, 1, 10, 20, counters={"A": [float("nan")], "B": [2.0]}),
        Launch(7, 2, 30, 40, counters={"A": [1.0], "B": [float("inf"), 1.0]}),
    ]
    what = Program(1, [Kernel("k", 7)], launches)
    recording = imported(write_results(tmp_path / "1_results.json", what))
    assert dict(counters(recording)) == {0: {"B": 2.0}, 1: {"A": 1.0}}
    assert [error.message for error in recording.errors] == [
        "1_results.json: A has 1 values that are no numbers, left out",
        "1_results.json: B has 1 values that are no numbers, left out",
    ]


def test_records_of_another_form_are_counted(tmp_path: Path) -> None:
    document = sdk_process(program())
    records = document["buffer_records"]["kernel_dispatch"]
    records[3] = {"size": 1, "dispatch_info": "none"}
    records[4]["dispatch_info"]["dispatch_id"] = 2**64 - 1
    records.append(7)
    document["callback_records"]["counter_collection"] = []
    path = written(tmp_path / "1_results.json", {"rocprofiler-sdk-tool": [document]})
    recording = imported(path)
    assert list(recording.dispatches.number) == [1, 2, 3, 6, 7, 8, 9]
    (error,) = recording.errors
    assert error.message.startswith("1_results.json: 3 records are not of the form")


def test_ids_far_apart(tmp_path: Path) -> None:
    numbers = [5_000_000_000, 3, 2_000_000, 2**62]
    launches = [Launch(7, number, 10, 20, counters={"A": [1.0]}) for number in numbers]
    document = sdk_process(Program(1, [Kernel("k", 7)], launches))
    document["buffer_records"]["kernel_dispatch"][0]["dispatch_info"]["queue_id"]["handle"] = (
        2**64 - 1
    )
    path = written(tmp_path / "1_results.json", {"rocprofiler-sdk-tool": [document]})
    recording = imported(path)
    assert list(recording.dispatches.number) == numbers  # no row twice


def test_names_that_are_not_utf8(tmp_path: Path) -> None:
    path = write_results(tmp_path / "1_results.json", program())
    path.write_bytes(path.read_bytes().replace(b"void copy<float>", b"v\xffid \x01copy"))
    recording = imported(path)
    assert recording.errors == ()
    assert recording.shapes[2].name == "v\ufffdid \\u0001copy(float*, int)"


@pytest.mark.parametrize(
    "text",
    ["[]", "{}", '{"traceEvents": []}', '{"rocprofiler-sdk-tools": []}', "", "rocprofiler", "\x00"],
)
def test_other_json_is_not_claimed(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a_results.json"
    path.write_text(text)
    assert results_json.find([path]) == []
    with pytest.raises(KinspectError, match="no recording of a known format"):
        imported(path)


def test_found_by_what_is_in_it(tmp_path: Path) -> None:
    path = write_results(tmp_path / "any name", program())
    marked = tmp_path / "marked"
    marked.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    gone = tmp_path / "gone.json"
    assert [group.files for group in results_json.find([path, marked, gone])] == [
        (path,),
        (marked,),
    ]
    assert imported(marked).dispatches == imported(path).dispatches


def test_nothing_was_recorded(tmp_path: Path) -> None:
    recording = imported(written(tmp_path / "1_results.json", {"rocprofiler-sdk-tool": []}))
    assert recording.notes == ("1_results.json holds no process: nothing was recorded",)
    assert recording.errors == ()


# --------------------------------------------------------------------------- the stream itself

leaves = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.text(max_size=8)
leaves |= st.floats(allow_nan=False)
values = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4)
    ),
    max_leaves=12,
)
nested = st.fixed_dictionaries(
    {"id": st.integers(), "in": st.lists(st.just({"id": 1}), max_size=3)}
)


@given(st.lists(values | nested, max_size=30), st.sampled_from([1, 40, 1 << 20]), st.booleans())
@example([0.5, -1e-7, 2e300, 12], 1, False)
def test_records_are_what_json_says(items: list[Any], batch: int, indent: bool) -> None:
    text = json.dumps({"before": items, "items": items, "after": 1}, indent=1 if indent else None)
    stream = JsonStream(io.BytesIO(text.encode()), batch)
    found: dict[str, Any] = {}
    for key in stream.members():
        if key == "items":
            found[key] = list(stream.records(object))
        elif key == "before":
            stream.skip()
        else:
            found[key] = stream.value()
    assert found == {"items": items, "after": 1}
    assert stream.offset == len(text.encode())
    assert stream.skipped == 0


@given(
    st.lists(nested, min_size=1, max_size=40), st.integers(0, 2**32), st.sampled_from([64, 4096])
)
def test_a_cut_stream_yields_whole_records_only(items: list[Any], where: int, batch: int) -> None:
    text = json.dumps(items).encode()
    cut = where % len(text)
    stream = JsonStream(io.BytesIO(text[:cut]), batch)
    found: list[Any] = []
    with pytest.raises(DamagedError):
        found.extend(stream.records(dict))
    assert found == items[: len(found)]
    ends = [len(json.dumps(items[: count + 1])) - 1 for count in range(len(items))]
    assert len(found) == sum(end <= cut for end in ends)


@pytest.mark.parametrize(
    ("text", "offset", "why"),
    [
        (b'{"a": 1', 7, "damaged or cut off"),
        (b'{"a" 1}', 1, "damaged or cut off"),
        (b'{"a": nope}', 6, "damaged or cut off"),
        (b'{"a": 1 "b": 2}', 8, "damaged or cut off"),
        (b"[1, 2]", 0, "damaged or cut off"),
        (b"", 0, "damaged or cut off"),
        (b'{"a": ' + b"[" * 100_000, 6, "nested too deeply"),
    ],
)
def test_where_and_why_it_stops(text: bytes, offset: int, why: str) -> None:
    stream = JsonStream(io.BytesIO(text))
    with pytest.raises(DamagedError, match=why) as found:
        _ = [stream.value() for _ in stream.members()]
    assert found.value.offset == offset


def test_a_number_of_thousands_of_digits() -> None:
    stream = JsonStream(io.BytesIO(b'[{"n": ' + b"1" * 5000 + b"}, 2]"))
    number, two = stream.records(object)
    assert math.isnan(number["n"])  # type: ignore[index]
    assert two == 2


def test_a_packed_file_cut_off(tmp_path: Path) -> None:
    plain = write_results(tmp_path / "1_results.json", program()).read_bytes()
    path = tmp_path / "2_results.json.gz"
    packed = gzip.compress(plain, 0)  # stored, so that its beginning can be unpacked
    path.write_bytes(packed[: len(packed) - 3000])
    recording = imported(path)
    assert len(recording.dispatches) == 9
    (error,) = recording.errors
    assert "cannot be unpacked further" in error.message


@pytest.mark.slow
@pytest.mark.parametrize("option", ["", "--shuffled", "--nan"])
def test_a_gigabyte(option: str) -> None:
    import subprocess
    import sys

    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.profile_import_json", *([option] if option else [])],
        cwd=Path(__file__).parent.parent,
        capture_output=True,
        text=True,
        check=True,
    )
    figures = done.stdout.splitlines()[1].replace(",", "").split()
    assert float(figures[0]) < 120  # seconds
    assert float(figures[figures.index("MB") - 1]) < 1000
