"""Faults put into a kernel's assembly, one at a time: `mutations` says which there are."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

WAIT = re.compile(r"^\ts_wait(cnt|_(load|ds|km|store|sample|bvh)cnt(_dscnt)?)\b.*$", re.M)
BARRIER = re.compile(r"^\ts_barrier(?:_signal\b.*\n(?:.*\n)*?\ts_barrier_wait)?\b.*$", re.M)
OFFSET = re.compile(r"^(\tds_(?:read|write|load|store)\w*_b(\d+) .*?)( offset:(\d+))?$", re.M)
XOR = re.compile(r"^(\tv_xor_b32\w* v\d+, )(0x[0-9a-f]+|\d+)(, v\d+)$", re.M)
UPPER_HALF = re.compile(r"\tds_(?:load|read)_u\d+_d16_hi (v\d+), (v\d+)\b")
LDS_RESULT = re.compile(r"^\tds_(?:load|read)_u\w+ (v\d+)", re.M)
NOP = re.compile(r"^\ts_nop \d+.*\n", re.M)
INSTRUCTION = re.compile(r"^\t([a-z]\w*_\w+)(?: (.*))?$")
REGISTERS = re.compile(r"\b([va])(?:\[(\d+):(\d+)\]|(\d+)\b)")
INITIAL = re.compile(
    r"^\t(?:v_mov_b32_e32 v\d+|v_accvgpr_write_b32 a\d+|s_mov_b32 s\d+), (-?[\d.]+|0x\w+)$", re.M
)


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


MUTATIONS: dict[str, Callable[[str], Iterator[str]]] = {
    "wait": lambda text: deleted(WAIT, text),
    "barrier": lambda text: deleted(BARRIER, text),
    "address": off_by_one,
    "swizzle": other_swizzle,
    "overlap": overlapped,
    "nop": without_nop,
    "init": uninitialised,
}
