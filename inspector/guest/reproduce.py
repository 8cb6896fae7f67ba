#!/usr/bin/env python3
"""Compiles the kernel beside this file with Triton alone, as `options.json` says.

    python reproduce.py [FOLDER]

FOLDER (default: `out` beside this file) gets every stage that the compiler makes. No GPU, PyTorch
or other package is needed, and the Triton may be another than the one named in `options.json`.
Exit status: 0 where the instructions are those of `expected.amdgcn` or there is no such file, 1
where they differ; of a compile that fails, Python's or the signal's.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
REPLACING = (
    *("TRITON_INTERPRET", "TRITON_OVERRIDE_ARCH", "TRITON_KERNEL_OVERRIDE"),
    *("TRITON_STORE_BINARY_ONLY", "TRITON_SWAP_MIR", "USE_IR_LOC"),
)
"""Variables that replace the target, the compiler's input or its output."""
INSTRUCTION = re.compile(r"[a-z]+_[a-z0-9_]+")


def say(line: str) -> None:
    """Prints a line."""
    sys.stdout.write(line + "\n")


def compiled(request: dict[str, Any], out: Path) -> None:
    """Compiles in a cache of its own, and writes the stages to `out`."""
    for name in REPLACING:
        os.environ.pop(name, None)
    os.environ.update(request["environment"])
    os.environ["TRITON_ALWAYS_COMPILE"] = "1"
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as cache:
        os.environ["TRITON_CACHE_DIR"] = cache
        triton = importlib.import_module("triton")
        gpu_target = importlib.import_module("triton.backends.compiler").GPUTarget
        say(f"Triton {triton.__version__} (exported with {request['triton']})")
        target = gpu_target("hip", request["arch"], request["wave_size"])
        # JSON has no tuples, and Triton hashes its options.
        options = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in request["options"].items()
        }
        os.chdir(HERE)  # the input's name gets into debug locations
        kernel = triton.compile(request["input"], target=target, options=options)
        for stage, content in kernel.asm.items():
            data = content if isinstance(content, bytes) else content.encode()
            (out / f"kernel.{stage}").write_bytes(data)


def instructions(assembly: str) -> list[str]:
    """The instructions of an assembly, without labels, directives and comments."""
    lines = (line.partition(";")[0].split() for line in assembly.splitlines())
    return [" ".join(words) for words in lines if words and INSTRUCTION.fullmatch(words[0])]


def difference(ours: list[str], theirs: list[str]) -> str | None:
    """What differs first; None where nothing does."""
    for number, (one, other) in enumerate(zip(ours, theirs), 1):
        if one != other:
            return f"instruction {number} is `{one}`, expected `{other}`"
    if len(ours) != len(theirs):
        return f"there are {len(ours)} instructions, expected {len(theirs)}"
    return None


def main() -> int:
    """Compiles, compares, and says what came of it."""
    out = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else HERE / "out"
    compiled(json.loads((HERE / "options.json").read_text("utf-8")), out)
    ours = instructions((out / "kernel.amdgcn").read_text("utf-8"))
    expected = HERE / "expected.amdgcn"
    if not expected.exists():
        say(f"{len(ours)} instructions; there is no expected.amdgcn to compare with")
        return 0
    differs = difference(ours, instructions(expected.read_text("utf-8")))
    if differs is None:
        say(f"{len(ours)} instructions, the same as in expected.amdgcn")
        return 0
    say(f"not the same as expected.amdgcn: {differs}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
