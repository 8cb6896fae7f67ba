"""`live.*`: figures of live registers in a report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from kinspect.inspector.explain import registers_view
from kinspect.inspector.metrics import live_values
from kinspect.inspector.model import KernelReport, LoopTraffic, Report, int_of
from kinspect.inspector.pipeline.analysis import analyze_text
from kinspect.inspector.pipeline.analysis_options import AnalysisOptions, Context
from kinspect.inspector.report import json_write as json_v1
from kinspect.inspector.report.json_read import SavedReport
from msgspec.structs import replace

SMALL = Path(__file__).parent / "data" / "small_gfx942.s"


def report(text: str, **changes: bool) -> KernelReport:
    (kernel,) = analyze_text(text, Context(str(SMALL), analysis=AnalysisOptions(**changes)))
    return kernel


def test_figures_of_a_small_kernel_counted_by_hand() -> None:
    kernel = report(SMALL.read_text())
    # At the load: v0, v20 and the four that it fills; s[4:7], s8 and s9; all of the accumulator.
    assert int_of(kernel.metrics, "live.vgprs") == 6
    assert int_of(kernel.metrics, "live.sgprs") == 6
    assert int_of(kernel.metrics, "live.agprs") == 16
    (loop,) = kernel.loops
    assert loop.metrics["live.at"].value == {
        "vgprs": 6, "agprs": 16, "at": None, "isa": 16, "instruction": "global_load_dwordx4",
    }  # fmt: skip
    assert int_of(loop.metrics, "live.untouched") == 0
    assert int_of(kernel.metrics, "live.dead_writes") == 0


def test_registers_beyond_the_allocated_are_said() -> None:
    """Neither LLVM's assembler nor its linker looks."""
    text = SMALL.read_text()
    assert not any("VGPRs, but" in note for note in report(text).notes)
    wild = report(text.replace("v22", "v21").replace("\ts_mov_b32 s9, 0\n", "\tv_mov_b32 v99, 1\n"))
    (note,) = (note for note in wild.notes if "VGPRs, but" in note)
    allocated = int_of(wild.metrics, "vgpr_allocated")
    assert allocated is not None
    assert allocated < 100
    assert note.startswith(f"the code uses 100 VGPRs, but {allocated} are")


def test_a_dead_write_and_a_register_that_only_passes_through_a_loop() -> None:
    text = SMALL.read_text().replace(
        "\ts_mov_b32 s9, 0\n", "\ts_mov_b32 s9, 0\n\tv_mov_b32_e32 v21, 1\n\tv_mov_b32_e32 v22, 1\n"
    )
    text = text.replace("\tglobal_store_dword v0, v2", "\tglobal_store_dword v21, v2")
    kernel = report(text)
    assert int_of(kernel.metrics, "live.dead_writes") == 1
    assert int_of(kernel.loops[0].metrics, "live.untouched") == 1
    lines = text.splitlines()
    assert [lines[line - 1].split()[1] for line in kernel.dead_writes] == ["v22,"]
    (passing,) = kernel.untouched
    assert (passing.loop, passing.vgprs, passing.agprs) == ("L0", 1, 0)
    assert [value.registers for value in passing.values] == ["v21"]
    again = SavedReport.open(
        json.dumps(json_v1.to_dict(Report("", {}, (kernel,), ()))), "again"
    ).report()
    assert again.kernels[0].untouched == kernel.untouched
    assert again.kernels[0].dead_writes == kernel.dead_writes
    assert registers_view.untouched_text(passing) == (
        "1 VGPR lives through L0, which does not touch it: unnamed (address) 1"
    )
    (line,) = kernel.dead_writes
    assert registers_view.dead_writes_text(kernel.dead_writes) == (
        f"1 vector instruction writes what nothing reads: ISA {line}"
    )


def test_unknown_where_it_was_not_looked_for_or_code_is_missing() -> None:
    kernel = report(SMALL.read_text(), lanes=False)
    assert kernel.metrics["live.vgprs"].value is None
    assert kernel.metrics["live.vgprs"].note
    strange = SMALL.read_text().replace("\ts_nop 15\n", "\ts_setpc_b64 s[2:3]\n")
    assert report(strange).metrics["live.vgprs"].value is None


def test_the_half_of_a_spilled_pair_that_nobody_reads_holds_no_value() -> None:
    spill = "\tscratch_store_dword off, v20, off offset:4 ; 4-byte Folded Spill\n"
    pair = "\tscratch_store_dwordx2 off, v[20:21], off offset:4 ; 8-byte Folded Spill\n"
    reload = "\tscratch_load_dword v20, off, off offset:4 ; 4-byte Folded Reload\n"
    text = SMALL.read_text().replace(spill, "")
    text = text.replace("\ts_mov_b32 s9, 0\n", f"\ts_mov_b32 s9, 0\n{pair}")
    text = text.replace(
        reload,
        "\tscratch_load_dwordx2 v[20:21], off, off offset:4 ; 8-byte Folded Reload\n"
        "\tv_add_u32_e32 v0, v0, v20\n",
    )
    kernel = report(text)
    assert kernel.live_peak is not None
    assert sum(value.scratch for value in kernel.live_peak.values) == 1
    assert [(value.dwords, value.stores) for value in kernel.spilled_values] == [(2, 1)]


def test_values_that_cannot_be_named_are_a_note_not_silence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(*arguments: object) -> None:
        raise KeyError("v_strange")

    monkeypatch.setattr(live_values, "named_values", fails)
    kernel = report(SMALL.read_text())
    assert kernel.live_peak is None
    assert int_of(kernel.metrics, "live.vgprs") == 6
    (note,) = (note for note in kernel.notes if "not named" in note)
    assert "KeyError" in note
    assert "v_strange" in note


def test_parked_dwords_say_where_they_are() -> None:
    kernel = report(SMALL.read_text())
    (slot,) = kernel.spills
    assert slot.value is not None
    assert (slot.value.name, slot.value.kind) == (None, "constant")
    assert [value.slots for value in kernel.spilled_values] == ["4:7"]
    spill = "\tscratch_store_dword off, v20, off offset:4 ; 4-byte Folded Spill\n"
    early = SMALL.read_text().replace(spill, "")
    early = early.replace("\ts_mov_b32 s9, 0\n", f"\ts_mov_b32 s9, 0\n{spill}")
    early = early.replace(
        "\ts_add_i32 s9, s9, 1\n", "\tv_add_u32_e32 v0, v0, v20\n\ts_add_i32 s9, s9, 1\n"
    )
    peak = report(early).live_peak
    assert peak is not None
    assert [(value.scratch, value.slots) for value in peak.values if value.scratch] == [(1, "4:7")]


def test_a_place_that_holds_one_value_after_another_is_a_slot_for_each() -> None:
    """As in `small`, but the place is stored to again behind the loop, and reloaded there."""
    behind = (
        "\ts_nop 15\n"
        "\tv_mul_f32_e32 v22, v2, v2\n"
        "\tscratch_store_dword off, v22, off offset:4 ; 4-byte Folded Spill\n"
        "\tscratch_load_dword v23, off, off offset:4 ; 4-byte Folded Reload\n"
        "\tglobal_store_dword v0, v23, s[6:7]\n"
    )
    text = SMALL.read_text().replace("\ts_nop 15\n", behind)
    kernel = report(text)
    lines = [n for n, line in enumerate(text.splitlines(), 1) if "scratch_" in line]
    pairs = [(slot.stores, slot.reloads, slot.loops) for slot in kernel.spills]
    assert pairs == [
        ((lines[0],), (lines[1],), ("L0",)),
        ((lines[2],), (lines[3],), ()),
    ]
    assert [slot.value.kind for slot in kernel.spills if slot.value] == ["constant", "value"]
    assert int_of(kernel.metrics, "spills.slots") == 1
    traffic = {value.kind: value.by_loop for value in kernel.spilled_values}
    assert traffic == {"constant": (LoopTraffic("L0", 1, 1),), "value": ()}
    # What an earlier iteration stored is reloaded by the next: these accesses stay together.
    spill = text.splitlines(keepends=True)[lines[0] - 1]
    late = text.replace(spill, "", 1).replace(
        "\ts_add_i32 s9, s9, 1\n", f"\ts_add_i32 s9, s9, 1\n{spill}"
    )
    late = late.replace("\ts_mov_b32 s9, 0\n", f"\ts_mov_b32 s9, 0\n{spill}")
    assert sorted(len(slot.stores) for slot in report(late).spills) == [1, 2]


def test_a_finding_knows_all_its_lines() -> None:
    spill = "\tscratch_store_dword off, v20, off offset:4 ; 4-byte Folded Spill\n"
    text = SMALL.read_text()
    first = text.splitlines(keepends=True).index(spill) + 1
    text = text.replace(spill, "".join(spill.replace(":4", f":{4 * n}") for n in range(1, 9)))
    (kernel,) = analyze_text(text, Context(str(SMALL)))
    finding = next(finding for finding in kernel.findings if finding.rule == "KI001")
    listed = [place for place in finding.locations if place.kind == "amdgcn"]
    assert len(listed) == 5
    assert finding.isa_lines == (*range(first, first + 8), first + 10)
    # What is read from a saved report has those that it lists.
    assert replace(finding, lines=()).isa_lines == tuple(place.line for place in listed)
