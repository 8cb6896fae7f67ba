"""Decodes AMDGPU machine code with the LLVM library of the wheel `rocm-llvm-python`.

Run as a process of its own (`python -m`, see disasm.py): LLVM ends the process on a failed
assertion, and its symbols must not meet those of the LLVM inside Triton.

Standard input: one line of JSON, `{"arch": "gfx942", "features": "+xnack", "sections": [{"address":
A, "size": N}, ...]}`, then the sections' bytes. Standard output: for each section one line per
instruction, `SIZE\tTEXT` (an empty text: these bytes decode to nothing), then an empty line.
"""

from __future__ import annotations

import ctypes
import json
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

_TRIPLE = b"amdgcn-amd-amdhsa"

# The longest encoding is 20 bytes (VOP3 with DPP and a literal on gfx1250); LLVM reads no further.
_WINDOW = 32
_TEXT_SIZE = 1024
# Runs of zero bytes from this length on are padding; llvm-objdump prints them as "...".
_ZEROS = re.compile(rb"\0{8,}")
_WORD = 4

Decode = Callable[[bytes, int], tuple[int, str]]


def open_decoder(arch: str, features: str) -> Decode | None:
    """A function from (bytes, address) to (instruction's size or 0, its text).

    Returns:
        None where this LLVM does not know `arch`.
    """
    from rocm.llvm.c import disassembler, target

    target.LLVMInitializeAllTargetInfos()
    target.LLVMInitializeAllTargetMCs()
    target.LLVMInitializeAllDisassemblers()
    context = disassembler.LLVMCreateDisasmCPUFeatures(
        _TRIPLE, arch.encode(), features.encode(), None, 0, None, None
    )
    if context is None:
        return None
    text = ctypes.create_string_buffer(_TEXT_SIZE)

    def decode(code: bytes, address: int) -> tuple[int, str]:
        size = disassembler.LLVMDisasmInstruction(
            context, code, len(code), address, text, _TEXT_SIZE
        )
        return size, text.value.decode("ascii", "replace").strip()

    return decode


def decode_section(code: bytes, address: int, decode: Decode) -> Iterator[tuple[int, str]]:
    """Yields (size, text) for each instruction of a section; the text is empty for other bytes."""
    offset = 0
    while offset < len(code):
        zeros = _zero_run(code, offset)
        if zeros:
            yield zeros, ""
            offset += zeros
            continue
        size, text = decode(code[offset : offset + _WINDOW], address + offset)
        if size <= 0 or not text:
            size, text = min(_WORD, len(code) - offset), ""
        yield size, text
        offset += size


def _zero_run(code: bytes, offset: int) -> int:
    run = _ZEROS.match(code, offset)
    return (run.end() - offset) & ~(_WORD - 1) if run else 0


def serve(source: BinaryIO, sink: BinaryIO) -> int:
    """Answers one request; returns the exit status, 3 for an architecture LLVM does not know."""
    request: dict[str, Any] = json.loads(source.readline())
    decode = open_decoder(request["arch"], request["features"])
    if decode is None:
        return 3
    for section in request["sections"]:
        code = source.read(section["size"])
        for size, text in decode_section(code, section["address"], decode):
            sink.write(f"{size}\t{text}\n".encode())
        sink.write(b"\n")
    return 0


if __name__ == "__main__":
    sys.exit(serve(sys.stdin.buffer, sys.stdout.buffer))
