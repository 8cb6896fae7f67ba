"""Control flow worked out without kinspect: objdump's branch targets, networkx's dominators."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import networkx as nx
from kinspect.inspector.isa.assembly import parse_text
from kinspect.inspector.isa.mnemonics import lookup
from kinspect.inspector.model import Function, Program

OBJDUMP = shutil.which("llvm-objdump-22")
MC = shutil.which("llvm-mc-22")
FILLER = ("s_nop", "s_code_end")
LEAVES = ("s_endpgm", "s_setpc_b64", "s_branch", "s_set_pc_i64", "s_add_pc_i64")


def assemble(text: str, cpu: str, path: Path) -> bytes:
    assert MC is not None
    command = [MC, "-triple=amdgcn-amd-amdhsa", f"-mcpu={cpu}", "-filetype=obj", "-o", str(path)]
    subprocess.run(command, input=text.encode(), check=True, capture_output=True)
    return path.read_bytes()


def disassemble(code: bytes, path: Path, *options: str) -> str:
    assert OBJDUMP is not None
    path.write_bytes(code)
    return subprocess.run(
        [OBJDUMP, "-d", *options, str(path)], check=True, capture_output=True, text=True
    ).stdout


def listed(listing: str) -> dict[str, list[tuple[int, str, str, str]]]:
    """Function -> [(address, mnemonic, operands, symbol+offset)], with nothing of kinspect."""
    functions: dict[str, list[tuple[int, str, str, str]]] = {}
    current: list[tuple[int, str, str, str]] = []
    for line in listing.splitlines():
        if match := re.match(r"[0-9a-f]+ <(.+)>:", line):
            current = functions.setdefault(match[1], [])
        elif match := re.match(r"\s+(\S+)\s*(.*?)\s*// ([0-9A-F]+):[ 0-9A-F]*(<.*>)?", line):
            current.append((int(match[3], 16), match[1], match[2], match[4] or ""))
    return functions


def reference_loops(
    rows: list[tuple[int, str, str, str]], symbols: dict[str, int]
) -> tuple[list[str], set[tuple[int, frozenset[int]]]]:
    """Mnemonics and loops (header, members), over the ordinals of reachable code's rows.

    Natural loops, and cycles with several entries: strongly connected components of the whole, or
    of a natural loop without its header. Long branches through s_setpc_b64 are resolved by adding
    up their constants.
    """
    ordinal = {row[0]: i for i, row in enumerate(rows)}
    jumps = [
        (i, ordinal[to])
        for i, (_, mnemonic, operands, target) in enumerate(rows)
        for to in targets(rows, i, mnemonic, operands, target, symbols)
        if to in ordinal or not target  # what is no branch by name must lead somewhere
    ]
    # Runs of rows that are entered at their first and left at their last alone are one node each,
    # named by the first: dominators over single rows take seconds for each large kernel.
    ends = {i for i, row in enumerate(rows) if row[1] in LEAVES} | {i for i, _ in jumps}
    starts = sorted({0, *(to for _, to in jumps), *(i + 1 for i in ends if i + 1 < len(rows))})
    run_of = {start: range(start, stop) for start, stop in pairwise([*starts, len(rows)])}
    first = {i: start for start, run in run_of.items() for i in run}
    graph: nx.DiGraph = nx.DiGraph()
    graph.add_nodes_from(starts)
    graph.add_edges_from((first[i], to) for i, to in jumps)
    graph.add_edges_from(
        (start, run.stop)
        for start, run in run_of.items()
        if rows[run[-1]][1] not in LEAVES and run.stop < len(rows)
    )
    dominator = {**nx.immediate_dominators(graph, 0), 0: 0}
    # A dominator tree query is an ancestor query; depths make the walk short enough.
    loops: dict[int, set[int]] = {}
    for tail, header in graph.edges:
        if tail not in dominator:
            continue
        above = tail
        while above != header and above != 0:
            above = dominator[above]
        if above == header:
            body = loops.setdefault(header, {header})
            work = [tail]
            while work:
                node = work.pop()
                if node not in body:
                    body.add(node)
                    work.extend(p for p in graph.predecessors(node) if p in dominator)
    members = {(header, frozenset(body)) for header, body in loops.items()}
    reachable = graph.subgraph(dominator)
    for region in (set(dominator), *(body - {header} for header, body in loops.items())):
        for component in nx.strongly_connected_components(reachable.subgraph(region)):
            entries = {
                n
                for n in component
                if n == 0 or any(p not in component for p in reachable.predecessors(n))
            }
            if len(entries) > 1:
                members.add((min(entries), frozenset(component)))
    found = {
        (header, frozenset(i for start in body for i in run_of[start])) for header, body in members
    }
    return [row[1] for row in rows], found


def targets(
    rows: list[tuple[int, str, str, str]],
    i: int,
    mnemonic: str,
    operands: str,
    target: str,
    symbols: dict[str, int],
) -> Iterator[int | None]:
    """The addresses that row i may jump to."""
    if target and not mnemonic.startswith("s_call"):
        yield destination(target, symbols)
    before = [row[1] for row in rows[max(i - 3, 0) : i]]
    if mnemonic == "s_setpc_b64" and before == ["s_getpc_b64", "s_add_u32", "s_addc_u32"]:
        low, high = (literal(row[2]) for row in rows[i - 2 : i])
        yield (rows[i - 2][0] + low + (high << 32)) % 2**64
    if mnemonic == "s_add_pc_i64":
        yield (rows[i + 1][0] + literal(operands)) % 2**64


def literal(operands: str) -> int:
    """The constant at the end of `s4, s4, 0x10` or `s5, s5, lit(0xffffffff)`, unsigned."""
    text = operands.rsplit(",", 1)[-1].strip()
    return int(re.sub(r"lit(?:64)?\((.*)\)", r"\1", text), 0) % 2**64


def destination(target: str, symbols: dict[str, int]) -> int | None:
    """The address that `<symbol+0x10>` stands for."""
    symbol, _, offset = target.strip("<>").partition("+")
    return symbols[symbol] + int(offset or "0", 16) if symbol else None


def without_filler(
    rows: list[tuple[int, str, str, str]], symbols: dict[str, int]
) -> list[tuple[int, str, str, str]]:
    """Rows without what alignment put after a jump or end (never the target of a branch)."""
    aimed_at = {destination(row[3], symbols) for row in rows}
    # `.p2align 6` before a loop's header, as RDNA's code has it, can be walked through as well.
    padding: set[int] = set()
    for i, row in enumerate(rows):
        while row[0] in aimed_at and row[0] % 64 == 0 and i and rows[i - 1][1] == "s_nop":
            i -= 1
            padding.add(i)
    rows = [row for i, row in enumerate(rows) if i not in padding]
    kept: list[tuple[int, str, str, str]] = []
    dropping = False
    for row in rows:
        dropping = (
            row[1] in FILLER
            and row[0] not in aimed_at
            and (dropping or (bool(kept) and kept[-1][1] in LEAVES))
        )
        if not dropping:
            kept.append(row)
    return kept


def loop_members(function: Function) -> set[tuple[int, frozenset[int]]]:
    """The loops of a parsed function in the same terms: ordinals of instructions."""
    return {
        (
            function.blocks[loop.header].start,
            frozenset(
                i
                for block in loop.blocks
                for i in range(function.blocks[block].start, function.blocks[block].stop)
            ),
        )
        for loop in function.loops
    }


def shape(function: Function) -> object:
    """Blocks and loops without labels and lines: what two forms of one code must share.

    The nops that align a loop's header are instructions of a disassembly alone, so the lengths of
    the blocks are not compared.
    """
    return (
        [(b.successors, b.predecessors) for b in function.blocks],
        [(x.id, x.header, x.blocks, x.latches, x.depth, x.parent) for x in function.loops],
    )


def check_against_objdump(text: str, code: bytes, folder: Path) -> Program:
    """Compares the parse of an assembly text with the disassembly of the same compile.

    Args:
        text: the assembly.
        code: its object (.hsaco or .o).
        folder: a scratch folder.
    """
    # Triton's LLVM writes gfx12's 16-bit registers as real ones; LLVM 22 has to be told.
    options = ("--mattr=+real-true16",) if "-gfx12" in text[:200] else ()
    listing = disassemble(code, folder / "code.o", *options)
    rows = listed(listing)
    symbols = {name: r[0][0] for name, r in rows.items() if r}
    program = parse_text(text, "text")
    relisted = {f.name: f for f in parse_text(listing, "listing").functions}
    assert program.functions
    for function in program.functions:
        own = without_filler(rows[function.symbol or function.name], symbols)
        mnemonics, loops = reference_loops(own, symbols)
        assert [canonical(i.mnemonic) for i in function.instructions] == [
            canonical(m) for m in mnemonics
        ], function.name
        assert loop_members(function) == loops, function.name
        assert shape(relisted[function.symbol or function.name]) == shape(function), function.name
        assert relisted[function.name].is_kernel == function.is_kernel
        assert set(relisted[function.name].calls) <= set(function.calls)
    return program


def canonical(mnemonic: str) -> str:
    """Encoding suffixes are a matter of taste between the two."""
    return lookup(mnemonic).name
