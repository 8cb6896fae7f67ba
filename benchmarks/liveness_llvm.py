"""Live registers held against LLVM's own: `python -m benchmarks.liveness_llvm FILE.ll…`.

`llc` stops before the assembly printer and prints its machine code (MIR), in which the blocks'
live-in registers come from its register allocator and the operands' flags from its instruction
tables. Both are independent of what kinspect reads in the text that the same `llc` writes. Compared
are the VGPRs and AGPRs that are live in front of every instruction.

LLVM 22's `llc` reads the LLVM IR of Triton 3.9 after a few changes of spelling (`for_llc`).
"""

from __future__ import annotations

import argparse
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from kinspect.inspector import machines
from kinspect.inspector.isa.assembly import parse_text
from kinspect.inspector.isa.dataflow.liveness import Liveness, liveness
from kinspect.inspector.isa.dataflow.operands import SCALAR_BIT, rows_of
from kinspect.inspector.model import Function
from msgspec import Struct

LLC = shutil.which("llc-22")
_LAST_PASS = "branch-relaxation"
"""The last pass that changes the code; what follows prints or emits it."""
_META = re.compile(
    r"(?:DBG_\w+|CFI_INSTRUCTION|KILL|IMPLICIT_DEF|EH_LABEL|WAVE_BARRIER|SCHED_BARRIER"
    r"|SCHED_GROUP_BARRIER|IGLP_OPT|FAKE_USE|LIFETIME_\w+|BUNDLE|SI_MASKED_UNREACHABLE"
    r"|S_CODE_END|INLINEASM_BR|PATCHABLE\w*|ADJCALLSTACK\w+)"
)
"""Instructions of MIR that become none of the assembly."""
_REGISTER = re.compile(r"\$([va])gpr(\d+)((?:_[va]gpr\d+)*)(?:_(lo|hi)16)?(?::0x([0-9A-Fa-f]+))?")
_OPERAND = re.compile(
    r"((?:(?:implicit-def|implicit|killed|dead|undef|renamable|early-clobber|internal"
    r"|debug-use)\s+)*)(\$[va]gpr\w+)"
)
_PACKED = re.compile(r"V_PK_(?:(?:ADD|MUL|FMA)_F32|MOV_B32)\w*")
_PAIR = re.compile(r"(?<![\w$])(\d+), (?:(?:killed|renamable|undef) )*(\$[va]gpr\w+)")
Half = tuple[str, int, int]
"""`v` or `a`, the number of the register, 0 or 1 for its lower or upper half."""


_EVERYTHING: frozenset[Half] = frozenset(
    (file, number, side) for file in "va" for number in range(1024) for side in (0, 1)
)


class MirInstruction(Struct, frozen=True):
    """An instruction of MIR: its opcode, the halves that it reads and writes, where it jumps."""

    opcode: str
    reads: frozenset[Half]
    writes: frozenset[Half]
    target: str | None = None


class MirBlock(Struct, frozen=True):
    """A block of MIR; `live_in` is what LLVM lists."""

    name: str
    successors: tuple[str, ...]
    live_in: frozenset[Half]
    instructions: tuple[MirInstruction, ...]
    is_entry: bool = False


class Comparison(Struct, frozen=True):
    """One function.

    Args:
        name: the function's.
        instructions: that were compared; 0 where the two texts could not be laid side by side.
        unequal: those in front of which other registers are live.
        peak, llvm_peak: registers that are live at most, by kinspect and by LLVM.
        missing: (line of the assembly, registers live by LLVM alone), the first few.
        extra: (line of the assembly, registers live by kinspect alone), the first few.
    """

    name: str
    instructions: int
    unequal: int
    peak: int
    llvm_peak: int
    missing: tuple[tuple[int, str], ...] = ()
    extra: tuple[tuple[int, str], ...] = ()


def for_llc(text: str) -> str:
    """Triton's LLVM IR as LLVM 22 spells it: newer versions write constants otherwise."""

    def double(value: float) -> str:
        return f"0x{struct.unpack('>Q', struct.pack('>d', value))[0]:016X}"

    def single(match: re.Match[str]) -> str:
        return double(struct.unpack(">f", bytes.fromhex(match[1]))[0])

    def nan(match: re.Match[str]) -> str:
        kind, sign, payload = match[1], int(match[2] == "-"), int(match[3], 16)
        if kind == "bfloat":
            return f"bfloat 0xR{sign << 15 | 0x7FC0 | payload:04X}"
        if kind == "half":
            return f"half 0xH{sign << 15 | 0x7E00 | payload:04X}"
        shift = 29 if kind == "float" else 0
        return f"{kind} 0x{sign << 63 | 0x7FF8 << 48 | payload << shift:016X}"

    text = re.sub(r"\b(bfloat|half|float|double) ([+-]?)nan\(0x([0-9A-Fa-f]+)\)", nan, text)
    text = re.sub(r"\bf0x([0-9A-F]{8})\b", single, text)
    text = re.sub(r"\bhalf -inf\b", "half 0xHFC00", text)
    text = re.sub(r"\bhalf \+?inf\b", "half 0xH7C00", text)
    text = re.sub(r"\bbfloat -inf\b", "bfloat 0xRFF80", text)
    text = re.sub(r"\bbfloat \+?inf\b", "bfloat 0xR7F80", text)
    text = re.sub(r"\bbfloat b?f16?0x", "bfloat 0xR", text)
    text = re.sub(r"\bf16?0x", "0xH", text)
    text = re.sub(r"(?<=[ \[])-inf\b", "0xFFF0000000000000", text)
    text = re.sub(r"(?<=[ \[])\+?inf\b", "0x7FF0000000000000", text)
    text = re.sub(r"\+qnan", "0x7FF8000000000000", text)
    text = re.sub(r"target triple = .*", 'target triple = "amdgcn-amd-amdhsa"', text)
    return re.sub(r", !mmra !\d+", "", text)


def compared(ir: str, arch: str) -> list[Comparison]:
    """Compiles LLVM IR twice, to MIR and to assembly, and compares the live registers of both.

    Raises:
        RuntimeError: this `llc` does not compile it; the message has its first line.
    """
    with tempfile.TemporaryDirectory(prefix="kinspect-") as folder:
        path = Path(folder) / "k.ll"
        path.write_text(ir)
        mir = _llc(path, arch, f"-stop-after={_LAST_PASS}", "-o", "-")
        text = _llc(path, arch, "-o", "-")
    machine = machines.load(arch)
    blocks = dict(mir_functions(mir))
    results = []
    for function in parse_text(text, "k.s").functions:
        name = function.symbol or function.name
        if name in blocks and function.instructions:
            results.append(_compare(name, function, liveness(function, machine), blocks[name]))
    return results


def _llc(path: Path, arch: str, *options: str) -> str:
    done = subprocess.run(
        [str(LLC), f"-mcpu={arch}", "-O3", path, *options],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(done.stderr.strip().split("\n")[0][:200] or "llc failed")
    return done.stdout


def mir_functions(mir: str) -> Iterator[tuple[str, list[MirBlock]]]:
    """Yields the functions of MIR: name and blocks."""
    for document in re.split(r"^---.*$", mir, flags=re.MULTILINE):
        name = re.search(r"^name:\s+'?([^'\n]+?)'?\s*$", document, re.MULTILINE)
        body = re.search(r"^body:\s+\|\n(.*)", document, re.MULTILINE | re.DOTALL)
        if name is not None and body is not None:
            yield name[1], list(_blocks(body[1]))


def _blocks(body: str) -> Iterator[MirBlock]:
    parts = re.split(r"^  (?=bb\.\d+)", body, flags=re.MULTILINE)[1:]
    for part in parts:
        head, *lines = part.split("\n")
        number = re.match(r"bb\.(\d+)", head)
        assert number is not None
        successors: tuple[str, ...] = ()
        live_in: frozenset[Half] = frozenset()
        instructions = []
        for line in lines:
            text = line.strip()
            if text.startswith("successors:"):
                successors = tuple(re.findall(r"%bb\.(\d+)", text))
            elif text.startswith("liveins:"):
                live_in = frozenset(
                    half for match in _REGISTER.finditer(text) for half in _halves(match)
                )
            elif text and text not in ("...", "}") and not text.startswith(";"):
                instruction = _instruction(text)
                if instruction is not None:
                    instructions.append(instruction)
        yield from _at_branches(
            MirBlock(number[1], successors, live_in, tuple(instructions), part is parts[0])
        )


def _at_branches(block: MirBlock) -> Iterator[MirBlock]:
    """Yields the parts of a block that end at its conditional branches.

    A part's list of what is live into it is unknown; it is taken for everything.
    """
    name, rest, others = block.name, list(block.instructions), list(block.successors)
    is_entry, live_in = block.is_entry, block.live_in
    for inst in block.instructions:
        if inst.target is None or inst.opcode == "S_BRANCH":
            continue
        count = rest.index(inst) + 1
        head, rest = rest[:count], rest[count:]
        following = f"{name}+"
        yield MirBlock(name, (inst.target, following), live_in, tuple(head), is_entry)
        if inst.target in others:
            others.remove(inst.target)
        name, is_entry, live_in = following, False, _EVERYTHING
    yield MirBlock(name, tuple(others), live_in, tuple(rest), is_entry)


def _halves(match: re.Match[str]) -> list[Half]:
    """The halves of registers in a MIR text; a lane mask, two bits a register, selects some."""
    file, first, others, half, mask = match.groups()
    count = 1 + others.count("_")
    halves = [(file, int(first) + k, side) for k in range(count) for side in (0, 1)]
    if half is not None:
        halves = [item for item in halves if item[2] == int(half == "hi")]
    if mask is not None:
        lanes = int(mask, 16)
        halves = [item for bit, item in enumerate(halves) if lanes >> bit & 1]
    return halves


def _instruction(text: str) -> MirInstruction | None:
    """An instruction of MIR; None for one that stands for none of the assembly."""
    text = text.split(" :: ")[0].removesuffix(" {")
    results, equals, rest = text.partition(" = ")
    if not equals:
        results, rest = "", text
    words = rest.split()
    opcode = next((word for word in words if re.fullmatch(r"[A-Z][A-Za-z0-9_]+,?", word)), "")
    reads: set[Half] = set()
    writes: set[Half] = set()
    for part, is_result in ((results, True), (rest, False)):
        for flags, name in _OPERAND.findall(part):
            register = _REGISTER.fullmatch(name)
            if register is None:
                continue
            halves = _halves(register)
            if is_result or ("implicit-def" in flags and not equals):
                writes.update(halves)
            elif "implicit-def" in flags:
                pass  # of the pair of which half is written: the mark of a copy in two parts
            elif "undef" not in flags and "internal" not in flags:
                reads.update(halves)
    reads -= _unselected(opcode, rest)
    if opcode.startswith(("KILL", "BUNDLE")) and not equals:
        # A mark for the register allocator, or the heading of instructions that follow.
        reads.clear()
        writes.clear()
    jump = re.search(r"%bb\.(\d+)", rest) if opcode.startswith(("S_CBRANCH", "S_BRANCH")) else None
    return MirInstruction(
        opcode.rstrip(","), frozenset(reads), frozenset(writes), jump[1] if jump else None
    )


def _unselected(opcode: str, operands: str) -> set[Half]:
    """Registers of pairs that OPSEL leaves out, which MIR lists as read.

    In front of each source stand its modifiers: bit 2 says that the low result takes the second
    register of the pair, bit 3 that the high one does.
    """
    if not _PACKED.fullmatch(opcode):
        return set()
    selected: set[Half] = set()
    named: set[Half] = set()
    for modifiers, register in _PAIR.findall(operands):
        match = _REGISTER.fullmatch(register)
        if match is None:
            continue
        halves = _halves(match)
        low, high = int(modifiers) >> 2 & 1, int(modifiers) >> 3 & 1
        if "MOV" in opcode:
            high = low
        named.update(halves)
        for chosen in (low, high) if len(halves) == 4 else ():
            selected.update(halves[2 * chosen : 2 * chosen + 2])
    return named - selected


def _compare(
    name: str, function: Function, live: Liveness, blocks: Sequence[MirBlock]
) -> Comparison:
    ours = [_ours(live, index) for index in range(len(function.instructions))]
    peak = max(map(_registers, ours), default=0)
    opcodes, theirs = zip(*_live_before(blocks), strict=True)
    llvm_peak = max(map(_registers, theirs), default=0)
    # A prologue that loads arguments comes in front afterwards, where these are preloaded.
    instructions = function.instructions[max(len(ours) - len(theirs), 0) :]
    ours = ours[len(ours) - len(instructions) :]
    alike = sum(
        _stem(inst.mnemonic) == _stem(opcode.lower())
        for inst, opcode in zip(instructions, opcodes, strict=False)
    )
    if len(instructions) != len(theirs) or alike < 0.9 * len(theirs):
        return Comparison(name, 0, 0, peak, llvm_peak)
    lines = [inst.line for inst in instructions]
    missing, extra, unequal = [], [], 0
    for line, mine, other in zip(lines, ours, theirs, strict=True):
        whole, whole_other = _whole(mine), _whole(other)
        unequal += whole != whole_other
        if whole_other - whole:
            missing.append((line, _named(whole_other - whole)))
        if whole - whole_other:
            extra.append((line, _named(whole - whole_other)))
    return Comparison(
        name, len(ours), unequal, peak, llvm_peak, tuple(missing[:5]), tuple(extra[:5])
    )


def _ours(live: Liveness, index: int) -> frozenset[Half]:
    start = live.target.accum_offset
    return frozenset(
        ("a", row - start, side) if row >= start else ("v", row, side)
        for row in rows_of(live.before[index])
        if row < SCALAR_BIT
        for side in (0, 1)
    )


def _whole(halves: frozenset[Half]) -> frozenset[tuple[str, int]]:
    """The registers of which a half is live."""
    return frozenset((file, number) for file, number, _ in halves)


def _registers(halves: frozenset[Half]) -> int:
    return len(_whole(halves))


def _named(registers: frozenset[tuple[str, int]]) -> str:
    return " ".join(f"{file}{number}" for file, number in sorted(registers))


def _stem(mnemonic: str) -> str:
    """The first two words of a mnemonic, which MIR and assembly share."""
    return "_".join(mnemonic.split("_")[:2])


def _live_before(blocks: Sequence[MirBlock]) -> Iterator[tuple[str, frozenset[Half]]]:
    """Yields the opcode of each instruction that the assembly has, and what is live before it.

    The blocks' own lists are upper limits: passes that remove code leave registers in them that
    nothing reads any more, and what is not on them is read as an undefined value (half of a pair
    that was spilled as a whole). What nobody has written holds no value, though LLVM may name it.
    """
    entering, written = _live_in(blocks), _written_before(blocks)
    for block in blocks:
        live = frozenset[Half]().union(*(entering[name] for name in block.successors))
        before: list[frozenset[Half]] = []
        for instruction in reversed(block.instructions):
            live = (live - instruction.writes) | instruction.reads
            before.append(live)
        held = written[block.name]
        for instruction, needed in zip(block.instructions, reversed(before), strict=True):
            if not _META.fullmatch(instruction.opcode):
                yield instruction.opcode, needed & held
            held |= instruction.writes


def _live_in(blocks: Sequence[MirBlock]) -> dict[str, frozenset[Half]]:
    """What each block reads, or lets through to one that does."""
    entering = {block.name: frozenset[Half]() for block in blocks}
    is_changed = True
    while is_changed:
        is_changed = False
        for block in reversed(blocks):
            live = frozenset[Half]().union(*(entering[name] for name in block.successors))
            for instruction in reversed(block.instructions):
                live = (live - instruction.writes) | instruction.reads
            if not block.is_entry:
                live &= block.live_in
            if live != entering[block.name]:
                entering[block.name] = live
                is_changed = True
    return entering


def _written_before(blocks: Sequence[MirBlock]) -> dict[str, frozenset[Half]]:
    """What may have been written when each block begins; the first one's list is the wave's."""
    written = {block.name: frozenset[Half]() for block in blocks}
    for block in blocks:
        if block.is_entry:
            written[block.name] = block.live_in
    is_changed = True
    while is_changed:
        is_changed = False
        for block in blocks:
            after = written[block.name].union(*(inst.writes for inst in block.instructions))
            for name in block.successors:
                if after - written[name]:
                    written[name] |= after
                    is_changed = True
    return written


def main() -> int:
    """Compares files of LLVM IR and prints a line for each function."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--arch", default="gfx942")
    options = parser.parse_args()
    if LLC is None:
        sys.exit("llc-22 is not installed")
    for path in options.files:
        try:
            results = compared(for_llc(path.read_text()), options.arch)
        except RuntimeError as error:
            print(f"{path}: {error}")
            continue
        for item in results:
            print(
                f"{path.name} {item.name}: peak {item.peak} (LLVM {item.llvm_peak}), "
                f"{item.unequal} of {item.instructions} unequal"
            )
            for title, places in (("LLVM alone", item.missing), ("kinspect alone", item.extra)):
                for line, registers in places:
                    print(f"    line {line}: {title}: {registers}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
