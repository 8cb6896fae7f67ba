"""Faults put into compiled kernels, and how many of them the emulator notices.

    python -m benchmarks.mutations [--arch gfx942 …] [--seed 0] [--most 20] [--survivors] [--static]

With `--static`, deleted waits and barriers are told as well by how many of them the analysis finds
without running anything, as a race in LDS or a missing wait.

Each kernel is compiled by the installed Triton, launched on random data and its result kept. Then
one instruction of its assembly is changed at a time:

    wait     a wait for memory is deleted
    barrier  a barrier is deleted (of a split one: both halves)
    address  the offset of an LDS access is one element off
    swizzle  a constant of an exclusive or, which places elements in LDS, has another bit
    overlap  all LDS accesses of one offset are moved onto another one's
    nop      an s_nop in front of a matrix instruction, or of what reads its result, is deleted
    pid      workgroups store where another one does: the row of the store is pid // 2, say
    init     the instruction that sets a register to a constant is deleted

A fault is noticed if the emulator tells of anything, if it gives up, or if the result differs.
Waits that protect nothing are left out, or that find nothing on its way in this launch, each time;
and initialisations whose value does not matter (another constant gives the same result) or stands
there already, written by the same code before.

One unchanged kernel is told as well, rightly, and no base for faults: GEMM 128x64x64 on gfx1100 by
Triton 3.9 stores to LDS at the end of its loop, and `s_barrier` at the loop's begin comes before
the wait. The memory legalizer puts `lgkmcnt(0)` there and SIInsertWaitcnts takes it away, since it
sees nothing pending when it first comes to the loop: llvm-project #220357 mended that in September
2026.
"""

from __future__ import annotations

import argparse
import random
import struct
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec
import numpy as np
from kinspect.inspector.base.errors import KinspectError
from kinspect.inspector.emulator.grid import Launch
from kinspect.inspector.emulator.launch import Emulator
from kinspect.inspector.emulator.lockstep import EmulationLimitError
from kinspect.inspector.emulator.memory import buffer_of
from kinspect.inspector.emulator.registry import NotCoveredError
from kinspect.inspector.isa.assembly import parse_text
from kinspect.inspector.machines.loader import load
from kinspect.inspector.pipeline.analysis import analyze_text
from kinspect.inspector.pipeline.analysis_options import Context, Overrides
from msgspec import Struct

from .assembly_faults import MUTATIONS, is_needless, other_constants

ADDRESS = 0x7F00_0000_0000
SPACING = 1 << 30
ORDERING = ("wait", "barrier")
KINDS = ("wait", "barrier", "address", "swizzle", "overlap", "nop", "pid", "init")


class CompiledLaunch(Struct):
    """A compiled kernel and a launch of it; `moved`: the same with stores of other rows."""

    name: str
    arch: str
    text: str
    grid: tuple[int, int, int]
    threads: int
    lds: int
    arrays: list[Any]
    numbers: tuple[int, ...]
    moved: tuple[str, ...] = ()


class LaunchResults(Struct):
    """The results of a launch, and the emulator's findings; empty where there are none."""

    results: list[Any]
    findings: str


class FaultCounts(Struct):
    """Mutants by kind of fault. `needless`: those that change nothing, which do not count.

    `found_statically`: of the noticed ones, those that the analysis finds without an execution.
    """

    noticed: Counter[str] = msgspec.field(default_factory=Counter)
    total: Counter[str] = msgspec.field(default_factory=Counter)
    needless: Counter[str] = msgspec.field(default_factory=Counter)
    found_statically: Counter[str] = msgspec.field(default_factory=Counter)


def cases(arch: str) -> Iterator[CompiledLaunch]:
    """The kernels compiled for a target, each with its launch."""
    from . import lds_kernels  # not above: Triton's import takes a second

    rng = np.random.default_rng(0)
    wave = 32 if arch.startswith("gfx1") else 64

    def half(*shape: int) -> Any:
        return rng.standard_normal(shape).astype(np.float16)

    def single(*shape: int) -> Any:
        return rng.standard_normal(shape).astype(np.float32)

    plans: list[tuple[str, dict[str, int], list[Any], tuple[int, ...], int, int]] = [
        ("gemm", {"M": 64, "N": 64, "BK": 32}, [half(64, 128), half(128, 64), single(64, 64)],
         (128,), 1, 4),
        ("gemm", {"M": 128, "N": 64, "BK": 64}, [half(128, 256), half(256, 64), single(128, 64)],
         (256,), 1, 8),
        ("tiles", {"M": 32, "N": 32, "SHARED": 1},
         [half(128, 160), half(160, 32), single(128, 32)], (160,), 4, 4),
        ("softmax", {"BLOCK": 1024, "SHARED": 1},
         [single(4, 1000), single(4, 1000)], (1000,), 4, 4),
        ("transpose", {"BLOCK": 64}, [single(64, 64), single(64, 64)], (64,), 1, 4),
        ("scan", {"BLOCK": 1024, "SHARED": 1}, [single(2, 1024), single(2, 1024)], (1024,), 2, 4),
        ("attention", {"BLOCK": 64, "D": 64},
         [half(64, 64), half(128, 64), half(128, 64), single(64, 64)], (128,), 1, 4),
    ]  # fmt: skip
    for name, constants, arrays, numbers, groups, warps in plans:
        jitted = getattr(lds_kernels, name)
        text, lds = compiled(jitted, arch, wave, constants, arrays, warps)
        moved = [
            compiled(jitted, arch, wave, {**constants, "SHARED": shared}, arrays, warps)[0]
            for shared in ((2, 3, 4) if "SHARED" in constants else ())
        ]
        yield CompiledLaunch(
            f"{name} {'x'.join(map(str, constants.values()))}", arch, text, (groups, 1, 1),
            warps * wave, lds, arrays, numbers, tuple(moved),
        )  # fmt: skip


def compiled(
    function: Any, arch: str, wave: int, constants: dict[str, int], arrays: list[Any], warps: int
) -> tuple[str, int]:
    """Assembly and bytes of LDS."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    kinds = {np.dtype(np.float16): "*fp16", np.dtype(np.float32): "*fp32"}
    names = list(function.arg_names)
    signature = {}
    for index, name in enumerate(names):
        if name in constants:
            signature[name] = "constexpr"
        else:
            signature[name] = kinds[arrays[index].dtype] if index < len(arrays) else "i32"
    attributes = {(index,): [["tt.divisibility", 16]] for index in range(len(arrays))}
    source = ASTSource(
        function, signature, {(names.index(k),): v for k, v in constants.items()}, attributes
    )
    made = triton.compile(source, target=GPUTarget("hip", arch, wave), options={"num_warps": warps})
    return made.asm["amdgcn"], made.metadata.shared


def never_changes(case: CompiledLaunch, mutant: str, state: Callable[[Any, Any], Any]) -> bool:
    """Whether an instruction that the mutant lacks leaves a state alone each time it is executed.

    Args:
        case: with the unchanged code, which runs once.
        mutant: the code without it.
        state: of the waves, by the instruction taken apart; compared before and after.
    """
    pairs = zip(case.text.split("\n"), mutant.split("\n"), strict=False)
    line = next(number for number, (old, new) in enumerate(pairs, 1) if old != new)
    same = [True]

    def watch(emulator: Emulator) -> None:
        for block in emulator.code.blocks:
            for at, (touched, step, site) in enumerate(block.steps):
                if emulator.code.function.instructions[site].line != line:
                    continue
                decoded = emulator.code.decoded[site]

                def compare(waves: Any, step: Any = step, decoded: Any = decoded) -> None:
                    before = state(waves, decoded)
                    step(waves)
                    same[0] &= np.array_equal(before, state(waves, decoded))

                block.steps[at] = (touched, compare, site)

    run(case, case.text, watch)
    return same[0]


def register_value(waves: Any, decoded: Any) -> Any:
    """The value of the register that an instruction sets."""
    target = decoded.operands[0]
    return (waves.u32 if target.kind == "vgpr" else waves.scalar)[target.first].copy()


def outstanding(waves: Any, decoded: Any) -> Any:
    """How many accesses of memory are on their way (not counted: invalidations of caches)."""
    entries = [entry for queue in waves.outstanding.queues.values() for entry in queue]
    return sum(1 for its in entries if its.registers or its.complete is not None or its.lds_bytes)


def run(
    case: CompiledLaunch, text: str, watch: Callable[[Emulator], None] | None = None
) -> LaunchResults:
    """Launches an assembly on a case's data."""
    machine = load(case.arch)
    kernel = parse_text(text, case.name).kernels[0]
    emulator = Emulator(kernel, machine)
    if watch is not None:
        watch(emulator)
    starts = [ADDRESS + SPACING * index for index in range(len(case.arrays))]
    buffers = [
        buffer_of(values, start, f"argument {index}")
        for index, (values, start) in enumerate(zip(case.arrays, starts, strict=True))
    ]
    arguments = struct.pack(f"<{len(starts)}Q{len(case.numbers)}i", *starts, *case.numbers)
    arguments += bytes(-len(arguments) % 8 + 16)
    launch = Launch(
        case.grid, (case.threads, 1, 1), case.lds, arguments, seconds=20, blocks=200_000
    )
    try:
        outcome = emulator.run(launch, buffers)
    except (EmulationLimitError, NotCoveredError, KinspectError) as error:
        return LaunchResults([], f"gave up: {error}")
    findings = ", ".join(sorted({trouble.kind for trouble in outcome.troubles}))
    results = [buffer.data[: buffer.size].copy() for buffer in buffers]
    return LaunchResults(results, findings)


STATES = {"init": register_value, "wait": outstanding}


def mutants_of(case: CompiledLaunch, kind: str) -> list[tuple[str, str | None]]:
    """Texts with one fault of a kind, each with one that shows whether the place matters."""
    if kind == "pid":
        return [(text, None) for text in case.moved]
    mutants = list(MUTATIONS[kind](case.text))
    if kind == "init":
        return list(zip(mutants, other_constants(case.text), strict=True))
    return [(mutant, None) for mutant in mutants]


def equals(outcome: LaunchResults, clean: LaunchResults) -> bool:
    """Whether nothing shows that the code has been changed."""
    return outcome.findings == clean.findings and all(
        np.array_equal(a, b) for a, b in zip(clean.results, outcome.results, strict=False)
    )


def main() -> int:
    """Prints a table."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    options.add_argument("--arch", nargs="*", default=["gfx942", "gfx950", "gfx1100", "gfx1201"])
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--most", type=int, default=20, help="of one kind in one kernel")
    options.add_argument("--kind", nargs="*", default=list(KINDS), choices=KINDS)
    options.add_argument("--survivors", action="store_true")
    options.add_argument("--static", action="store_true")
    chosen = options.parse_args()
    counts = FaultCounts()
    unchanged = 0
    for arch in chosen.arch:
        for case in cases(arch):
            clean = run(case, case.text)
            if clean.findings:
                sys.stdout.write(f"{arch} {case.name}: unchanged, findings: {clean.findings}\n")
                unchanged += 1
                continue
            for kind in chosen.kind:
                mutants = mutants_of(case, kind)
                random.Random(chosen.seed).shuffle(mutants)
                static = chosen.static and kind in ORDERING
                chosen_mutants = mutants[: chosen.most]
                for mutant in survivors(case, clean, kind, chosen_mutants, counts, static=static):
                    if chosen.survivors:
                        _show(arch, case, kind, mutant)
    print_counts(counts, unchanged)
    if chosen.static:
        for kind in ORDERING:
            found, noticed = counts.found_statically[kind], counts.noticed[kind]
            sys.stdout.write(f"{kind}: {found} of {noticed} noticed ones found statically\n")
    return 0


def order_faults(case: CompiledLaunch, text: str) -> tuple[int, int]:
    """LDS races and missing waits that the analysis finds in an assembly."""
    launch = Overrides(lds_bytes=case.lds, workgroup=(case.threads, 1, 1))
    (report,) = analyze_text(text, Context(case.name, overrides=launch))
    races = report.metrics["lds.races"].value
    missing = sum(1 for wait in report.waits if wait.verdict == "missing")
    return int(races["pairs"]) if isinstance(races, dict) else 0, missing


def survivors(
    case: CompiledLaunch,
    clean: LaunchResults,
    kind: str,
    mutants: Iterable[tuple[str, str | None]],
    counts: FaultCounts,
    *,
    static: bool = False,
) -> Iterator[str]:
    """Runs mutants and counts them; yields those that are not noticed.

    Args:
        case: the kernel without faults.
        clean: the outcome of that.
        kind: of the faults.
        mutants: see `mutants_of`.
        counts: added to.
        static: whether to ask the analysis too.
    """
    before = order_faults(case, case.text) if static else (0, 0)
    for mutant, control in mutants:
        if is_needless(kind, case.text, mutant) or (
            control is not None and equals(run(case, control), clean)
        ):
            counts.needless[kind] += 1
            continue
        same = equals(run(case, mutant), clean)
        if same and kind in STATES and never_changes(case, mutant, STATES[kind]):
            counts.needless[kind] += 1
            continue
        counts.total[kind] += 1
        counts.noticed[kind] += not same
        if static and not same:
            now = order_faults(case, mutant)
            counts.found_statically[kind] += now[0] > before[0] or now[1] > before[1]
            if now == before:
                line = _changed_line(case, mutant)
                sys.stdout.write(f"{case.arch} {case.name} {kind}: not found statically: {line}\n")
        if same:
            yield mutant


def print_counts(counts: FaultCounts, unchanged: int) -> None:
    """Prints the table; `unchanged`: kernels without faults in which something was found."""
    noticed, total = counts.noticed, counts.total
    for kind in KINDS:
        share = f"{100 * noticed[kind] / total[kind]:.1f} %" if total[kind] else "-"
        sys.stdout.write(
            f"{kind:8} {noticed[kind]:5} of {total[kind]:5} noticed   {share:>7}"
            f"   ({counts.needless[kind]} needless, left out)\n"
        )
    sys.stdout.write(
        f"all      {noticed.total():5} of {total.total():5} noticed   "
        f"{100 * noticed.total() / max(total.total(), 1):.1f} %; "
        f"unchanged kernels with findings: {unchanged}\n"
    )


def _show(arch: str, case: CompiledLaunch, kind: str, mutant: str) -> None:
    sys.stdout.write(f"{arch} {case.name} {kind}: {_changed_line(case, mutant)}\n")


def _changed_line(case: CompiledLaunch, mutant: str) -> str:
    pairs = zip(case.text.split("\n"), mutant.split("\n"), strict=False)
    number, (old, new) = next((i, p) for i, p in enumerate(pairs, 1) if p[0] != p[1])
    return f"line {number}: {old.strip()} -> {new.strip()}"


if __name__ == "__main__":
    raise SystemExit(main())
