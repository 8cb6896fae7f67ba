"""Faults put into compiled kernels, and how many of them the emulator notices.

    python -m benchmarks.mutations [--arch gfx942 …] [--seed 0] [--most 20] [--survivors]

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
import re
import struct
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from kinspect.inspector.emulator.access import NotCoveredError
from kinspect.inspector.emulator.launch import Emulator, Launch
from kinspect.inspector.emulator.lockstep import EmulationLimitError
from kinspect.inspector.emulator.memory import buffer_of
from kinspect.inspector.errors import KinspectError
from kinspect.inspector.isa.assembly import parse_text
from kinspect.inspector.machines.loader import load
from msgspec import Struct

ADDRESS = 0x7F00_0000_0000
SPACING = 1 << 30
KINDS = ("wait", "barrier", "address", "swizzle", "overlap", "nop", "pid", "init")


class Case(Struct):
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


class Run(Struct):
    """What came of a launch: results, and what was told."""

    results: list[Any]
    told: str


def kernels() -> dict[str, Any]:
    """Kernels that exchange data through LDS, with shapes for small launches."""
    import triton
    import triton.language as tl

    @triton.jit
    def gemm(a, b, c, K, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr):
        rm, rn, rk = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BK)
        acc = tl.zeros((M, N), tl.float32)
        for k in range(0, K, BK):
            x = tl.load(a + rm[:, None] * K + k + rk[None, :])
            y = tl.load(b + (k + rk)[:, None] * N + rn[None, :])
            acc = tl.dot(x, y, acc)
        tl.store(c + rm[:, None] * N + rn[None, :], acc)

    @triton.jit
    def softmax(x, out, n, BLOCK: tl.constexpr, SHARED: tl.constexpr):
        row, i = tl.program_id(0), tl.arange(0, BLOCK)
        v = tl.load(x + row * n + i, mask=i < n, other=-float("inf"))
        e = tl.exp(v - tl.max(v, 0))
        tl.store(out + row // SHARED * n + i, e / tl.sum(e, 0), mask=i < n)

    @triton.jit
    def transpose(x, out, n, BLOCK: tl.constexpr):
        i, j = tl.arange(0, BLOCK)[:, None], tl.arange(0, BLOCK)[None, :]
        tile = tl.load(x + i * n + j)
        tl.store(out + i * n + j, tl.trans(tile))

    @triton.jit
    def scan(x, out, n, BLOCK: tl.constexpr, SHARED: tl.constexpr):
        row, i = tl.program_id(0), tl.arange(0, BLOCK)
        total = tl.cumsum(tl.load(x + row * BLOCK + i), 0)
        tl.store(out + row // SHARED * BLOCK + i, total)

    @triton.jit
    def tiles(a, b, c, K, M: tl.constexpr, N: tl.constexpr, SHARED: tl.constexpr):
        row, rm, rn, rk = tl.program_id(0), tl.arange(0, M), tl.arange(0, N), tl.arange(0, 32)
        acc = tl.zeros((M, N), tl.float32)
        for k in range(0, K, 32):
            x = tl.load(a + (row * M + rm[:, None]) * K + k + rk[None, :])
            y = tl.load(b + (k + rk)[:, None] * N + rn[None, :])
            acc = tl.dot(x, y, acc)
        tl.store(c + (row // SHARED * M + rm[:, None]) * N + rn[None, :], acc)

    @triton.jit
    def attention(q, k, v, out, n, BLOCK: tl.constexpr, D: tl.constexpr):
        i, j, d = tl.arange(0, BLOCK), tl.arange(0, BLOCK), tl.arange(0, D)
        qs = tl.load(q + i[:, None] * D + d[None, :])
        top = tl.full((BLOCK,), -float("inf"), tl.float32)
        total = tl.zeros((BLOCK,), tl.float32)
        acc = tl.zeros((BLOCK, D), tl.float32)
        for start in range(0, n, BLOCK):
            ks = tl.load(k + (start + j)[:, None] * D + d[None, :])
            s = tl.dot(qs, tl.trans(ks)) * 0.125
            new = tl.maximum(top, tl.max(s, 1))
            p = tl.exp(s - new[:, None])
            scale = tl.exp(top - new)
            total = total * scale + tl.sum(p, 1)
            vs = tl.load(v + (start + j)[:, None] * D + d[None, :])
            acc = acc * scale[:, None] + tl.dot(p.to(vs.dtype), vs)
            top = new
        tl.store(out + i[:, None] * D + d[None, :], acc / total[:, None])

    return {
        "gemm": gemm, "softmax": softmax, "transpose": transpose, "scan": scan,
        "tiles": tiles, "attention": attention,
    }  # fmt: skip


def cases(arch: str) -> Iterator[Case]:
    """The kernels compiled for a target, each with its launch."""
    rng = np.random.default_rng(0)
    wave = 32 if arch.startswith("gfx1") else 64
    jitted = kernels()

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
        text, lds = compiled(jitted[name], arch, wave, constants, arrays, warps)
        moved = [
            compiled(jitted[name], arch, wave, {**constants, "SHARED": shared}, arrays, warps)[0]
            for shared in ((2, 3, 4) if "SHARED" in constants else ())
        ]
        yield Case(
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


def never_changes(case: Case, mutant: str, state: Callable[[Any, Any], Any]) -> bool:
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


def held(waves: Any, decoded: Any) -> Any:
    """What stands in the register that an instruction sets."""
    target = decoded.operands[0]
    return (waves.u32 if target.kind == "vgpr" else waves.scalar)[target.first].copy()


def outstanding(waves: Any, decoded: Any) -> Any:
    """How many accesses of memory are on their way (not counted: invalidations of caches)."""
    entries = [entry for queue in waves.outstanding.queues.values() for entry in queue]
    return sum(1 for its in entries if its.registers or its.complete is not None or its.lds_bytes)


def run(case: Case, text: str, watch: Callable[[Emulator], None] | None = None) -> Run:
    """Launches an assembly on a case's data."""
    machine = load(case.arch)
    kernel = parse_text(text, case.name).kernels[0]
    emulator = Emulator(
        kernel,
        machine,
    )
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
        return Run([], f"gave up: {error}")
    told = ", ".join(sorted({trouble.kind for trouble in outcome.troubles}))
    results = [buffer.data[: buffer.size].copy() for buffer in buffers]
    return Run(results, told)


STATES = {"init": held, "wait": outstanding}

# ---------------------------------------------------------------------- mutations

WAIT = re.compile(r"^\ts_wait(cnt|_(load|ds|km|store|sample|bvh)cnt(_dscnt)?)\b.*$", re.M)
BARRIER = re.compile(r"^\ts_barrier(?:_signal\b.*\n(?:.*\n)*?\ts_barrier_wait)?\b.*$", re.M)
OFFSET = re.compile(r"^(\tds_(?:read|write|load|store)\w*_b(\d+) .*?)( offset:(\d+))?$", re.M)
XOR = re.compile(r"^(\tv_xor_b32\w* v\d+, )(0x[0-9a-f]+|\d+)(, v\d+)$", re.M)


def deleted(pattern: re.Pattern[str], text: str) -> Iterator[str]:
    """The text without one match, each in turn."""
    for match in pattern.finditer(text):
        # Between the halves of a split barrier there may be other instructions.
        between = match[0].split("\n")[1:-1]
        yield text[: match.start()] + "\n".join(["\ts_nop 0", *between]) + text[match.end() :]


def off_by_one(text: str) -> Iterator[str]:
    """One LDS access an element further."""
    for match in OFFSET.finditer(text):
        if "offset0" in match[0] or "offset1" in match[0]:
            continue
        moved = int(match[4] or 0) + int(match[2]) // 8
        yield text[: match.start()] + f"{match[1]} offset:{moved}" + text[match.end() :]


def other_swizzle(text: str) -> Iterator[str]:
    """One constant of an exclusive or with another bit."""
    for match in XOR.finditer(text):
        value = int(match[2], 0)
        if not 16 <= value <= 0x4000:
            continue
        yield (
            text[: match.start(2)] + str(value ^ (value << 1 & 0x7FFF or 16)) + text[match.end(2) :]
        )


def overlapped(text: str) -> Iterator[str]:
    """All accesses of one offset moved onto another buffer's."""
    offsets = sorted({int(m[4]) for m in OFFSET.finditer(text) if m[4] and int(m[4]) >= 1024})
    for offset in offsets:
        yield re.sub(rf"(\tds_.*) offset:{offset}$", rf"\1 offset:{offset // 2}", text, flags=re.M)


UPPER_HALF = re.compile(r"\tds_(?:load|read)_u\d+_d16_hi (v\d+), (v\d+)\b")
LDS_RESULT = re.compile(r"^\tds_(?:load|read)_u\w+ (v\d+)", re.M)
NOP = re.compile(r"^\ts_nop \d+.*\n", re.M)
INSTRUCTION = re.compile(r"^\t([a-z]\w*_\w+)(?: (.*))?$")
REGISTERS = re.compile(r"\b([va])(?:\[(\d+):(\d+)\]|(\d+)\b)")
INITIAL = re.compile(
    r"^\t(?:v_mov_b32_e32 v\d+|v_accvgpr_write_b32 a\d+|s_mov_b32 s\d+), (-?[\d.]+|0x\w+)$", re.M
)


def registers(operands: str) -> set[tuple[str, int]]:
    """The vector registers that a text names."""
    return {
        (bank, number)
        for bank, low, high, single in REGISTERS.findall(operands)
        for number in range(int(low or single), int(high or single) + 1)
    }


def without_nop(text: str) -> Iterator[str]:
    """One s_nop less, of those that matrix instructions need."""
    for match in NOP.finditer(text):
        following = next(
            found for line in text[match.end() :].split("\n") if (found := INSTRUCTION.match(line))
        )
        before = [INSTRUCTION.match(line) for line in text[: match.start()].split("\n")[-40:]]
        products = [found[2] for found in before if found and found[1].startswith("v_mfma")]
        results = {r for product in products for r in registers(product.split(", ")[0])}
        if following[1].startswith("v_permlane"):  # which has a hazard of its own
            continue
        if following[1].startswith("v_mfma") or results & registers(following[2] or ""):
            yield text[: match.start()] + text[match.end() :]


def uninitialised(text: str) -> Iterator[str]:
    """One register less that is set to a constant."""
    for match in INITIAL.finditer(text):
        yield text[: match.start()] + "\ts_nop 0" + text[match.end() :]


def other_constants(text: str) -> Iterator[str]:
    """The same places with another constant."""
    for match in INITIAL.finditer(text):
        yield text[: match.start(1)] + "0x49742400" + text[match.end(1) :]  # 1e6 as a float


MUTATIONS: dict[str, Callable[[str], Iterator[str]]] = {
    "wait": lambda text: deleted(WAIT, text),
    "barrier": lambda text: deleted(BARRIER, text),
    "address": off_by_one,
    "swizzle": other_swizzle,
    "overlap": overlapped,
    "nop": without_nop,
    "init": uninitialised,
}


def mutants_of(case: Case, kind: str) -> list[tuple[str, str | None]]:
    """Texts with one fault of a kind, each with one that shows whether the place matters."""
    if kind == "pid":
        return [(text, None) for text in case.moved]
    mutants = list(MUTATIONS[kind](case.text))
    if kind == "init":
        return list(zip(mutants, other_constants(case.text), strict=True))
    return [(mutant, None) for mutant in mutants]


def is_needless(kind: str, before: str, after: str) -> bool:
    """Whether a deleted wait is one that protects nothing.

    It stands before another wait for at least as much with no memory operation and no use between,
    or at the end of the kernel, or waits for stores alone. Or nothing comes before the next wait
    but a read of LDS into the upper half of a register whose lower half one before it reads: these
    arrive in the order of issue.
    """
    if kind != "wait":
        return False
    lines = before.split("\n")
    changed = next(
        i for i, (a, b) in enumerate(zip(lines, after.split("\n"), strict=False)) if a != b
    )
    if re.search(r"storecnt|vscnt", lines[changed]):
        return True
    following = [line for line in lines[changed + 1 :] if re.match(r"\t[a-z]+_", line)]
    upper = UPPER_HALF.match(following[0])
    if upper and following[1].split()[0] == lines[changed].split()[0]:
        recent = "\n".join(lines[max(changed - 100, 0) : changed])
        return f"d16 {upper[1]}," in recent and upper[2] not in LDS_RESULT.findall(recent)
    for line in following:
        if "s_endpgm" in line:
            return True
        if line.split()[0] == lines[changed].split()[0]:
            return line.split(";")[0].strip() == lines[changed].split(";")[0].strip()
        if not line.startswith("\ts_") or line.startswith(
            ("\ts_load", "\ts_cbranch", "\ts_branch")
        ):
            return False
    return False


def equals(outcome: Run, clean: Run) -> bool:
    """Whether nothing shows that the code has been changed."""
    return outcome.told == clean.told and all(
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
    chosen = options.parse_args()
    noticed: Counter[str] = Counter()
    total: Counter[str] = Counter()
    equal: Counter[str] = Counter()
    unchanged = 0
    for arch in chosen.arch:
        for case in cases(arch):
            clean = run(case, case.text)
            if clean.told:
                sys.stdout.write(f"{arch} {case.name}: unchanged, and told: {clean.told}\n")
                unchanged += 1
                continue
            for kind in chosen.kind:
                mutants = mutants_of(case, kind)
                random.Random(chosen.seed).shuffle(mutants)
                for mutant, control in mutants[: chosen.most]:
                    if is_needless(kind, case.text, mutant) or (
                        control is not None and equals(run(case, control), clean)
                    ):
                        equal[kind] += 1
                        continue
                    same = equals(run(case, mutant), clean)
                    if same and kind in STATES and never_changes(case, mutant, STATES[kind]):
                        equal[kind] += 1
                        continue
                    total[kind] += 1
                    noticed[kind] += not same
                    if same and chosen.survivors:
                        _show(arch, case, kind, mutant)
    for kind in KINDS:
        share = f"{100 * noticed[kind] / total[kind]:.1f} %" if total[kind] else "-"
        sys.stdout.write(
            f"{kind:8} {noticed[kind]:5} of {total[kind]:5} noticed   {share:>7}"
            f"   ({equal[kind]} needless, left out)\n"
        )
    everything = sum(total.values())
    sys.stdout.write(
        f"all      {sum(noticed.values()):5} of {everything:5} noticed   "
        f"{100 * sum(noticed.values()) / max(everything, 1):.1f} %; "
        f"unchanged kernels with findings: {unchanged}\n"
    )
    return 0


def _show(arch: str, case: Case, kind: str, mutant: str) -> None:
    pairs = zip(case.text.split("\n"), mutant.split("\n"), strict=False)
    number, (old, new) = next((i, p) for i, p in enumerate(pairs, 1) if p[0] != p[1])
    sys.stdout.write(f"{arch} {case.name} {kind}: line {number}: {old.strip()} -> {new.strip()}\n")


if __name__ == "__main__":
    raise SystemExit(main())
