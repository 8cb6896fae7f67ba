"""Whose samples and traced cycles are whose: several specialisations share Triton's one name."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import pytest
from kinspect.inspector.model import Artifact, KernelReport
from kinspect.inspector.model.recording import (
    CodePlace,
    KernelMatch,
    KernelProfile,
    KernelShape,
    Part,
    RecordedCodeObject,
    Recording,
    Samples,
    ThreadTrace,
    Traced,
)
from kinspect.inspector.pipeline.analysis import analyze_text
from kinspect.inspector.pipeline.analysis_options import Context
from kinspect.inspector.profile import landing
from kinspect.inspector.profile.builder import RecordingBuilder
from kinspect.inspector.profile.kernel_profiles import analyse
from msgspec.structs import replace

ASM = Path(__file__).parent / "data" / "small_gfx942.s"


def recorded(
    specialisations: int, *, by_shape: bool, code: Sequence[RecordedCodeObject] = ()
) -> Recording:
    """Dispatches of one name, and a traced and a sampled line that name no more than it."""
    builder = RecordingBuilder(Path("/run"))
    builder.begin(Part("trace", "/run", "rocprofv3 CSV"))
    for number in range(specialisations):
        size = 64 * (number + 1)
        shape = builder.shape(KernelShape("attend", "4", 1, number, vgpr=size, lds_bytes=0))
        for start in range(0, 4000, 1000):
            builder.dispatch(shape, None, start, start + 500 + size)
    named = builder.shape(KernelShape("attend", code_object=3)) if by_shape else None
    place = CodePlace(named, 1, 3, 0x100, "s_nop 0")
    builder.traces.append(ThreadTrace("/t", None, 42, "attend", (Traced(place, 1, 10, 5, 0),)))
    if by_shape:
        builder.samples.append(Samples(place, "stochastic", 3, 1))
    builder.code_objects.extend(code)
    return builder.finish()


def stalls(recording: Recording, kernels: Sequence[KernelProfile]) -> list[int]:
    return [
        sum(line.stall for line in own.traced)
        for own in landing._measurements_of_kernels(recording, kernels, {})
    ]


@pytest.mark.parametrize("by_shape", [True, False])
def test_one_specialisation_has_all_of_its_name(by_shape: bool) -> None:
    recording = recorded(1, by_shape=by_shape)
    kernels = analyse(recording).kernels
    assert stalls(recording, kernels) == [5]


@pytest.mark.parametrize("by_shape", [True, False])
def test_what_may_be_of_two_is_given_to_none_and_both_say_so(by_shape: bool) -> None:
    recording = recorded(2, by_shape=by_shape)
    kernels = analyse(recording).kernels
    assert stalls(recording, kernels) == [0, 0]
    found, _ = landing.add_measured_lines(recording, kernels, ())
    for kernel in found:
        assert kernel.lines == ()
        assert any("thread traces of this name stand on no line" in n for n in kernel.notes)
        assert any("samples of this name" in n for n in kernel.notes) == by_shape


def test_leaving_one_out_does_not_give_its_cycles_to_the_other() -> None:
    recording = recorded(2, by_shape=False)
    kernels = analyse(recording, top=1).kernels
    assert len(kernels) == 1
    assert stalls(recording, kernels) == [0]


def test_the_code_object_decides_where_it_was_saved(tmp_path: Path) -> None:
    saved = tmp_path / "code_object_id_3.out"
    saved.write_bytes(b"the second one's code")
    digest = hashlib.sha256(saved.read_bytes()).hexdigest()
    recording = recorded(
        2, by_shape=True, code=[RecordedCodeObject(3, 1, None, None, None, str(saved))]
    )
    (base,) = analyze_text(ASM.read_text(), Context(str(ASM)))
    reports: dict[str, KernelReport] = {}
    kernels = []
    for kernel, sha in zip(analyse(recording).kernels, ("0" * 64, digest), strict=True):
        name = f"{base.id}#{kernel.id}"
        artifacts = {"hsaco": Artifact("hsaco", sha, 1, saved)}
        reports[name] = replace(base, id=name, artifacts=artifacts)
        kernels.append(replace(kernel, match=KernelMatch("likely", (name,), ())))
    first, second = landing._measurements_of_kernels(recording, kernels, reports)
    assert (len(first.traced), len(first.samples), first.shared) == (0, 0, set())
    assert (len(second.traced), len(second.samples), second.shared) == (1, 1, set())
