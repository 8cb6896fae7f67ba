"""Compiles what a script launches by Triton alone, without a GPU: nothing of kinspect takes part.

`main("meta")` of the script runs in a process of its own, with tensors that have no memory and a
driver that only says which GPU there is; each launch is compiled and not run.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

_COMPILE = """
import json, os, runpy, sys
script, arch, answer = sys.argv[1:]
import triton
from triton.backends.compiler import GPUTarget
from triton.runtime.jit import JITFunction
class Driver:
    get_current_target = lambda self: GPUTarget("hip", arch, 64)
    get_current_device = lambda self: 0
    get_current_stream = lambda self, device: 0
    get_active_torch_device = lambda self: "meta"
    get_benchmarker = lambda self: None
triton.runtime.driver.set_active(Driver())
launch = JITFunction.run
compiled = []
def run(self, *args, grid, warmup, **named):
    code = launch(self, *args, grid=grid, warmup=True, **named)
    compiled.append({
        "name": code.metadata.name, "shared": code.metadata.shared,
        "num_warps": code.metadata.num_warps, "assembly": code.asm["amdgcn"],
        "ttgir": code.asm["ttgir"],
        "constants": {self.arg_names[at[0]]: value for at, value in code.src.constants.items()
                      if isinstance(value, (int, float, str))},
    })
    return code
JITFunction.run = run
runpy.run_path(script)["main"]("meta")
json.dump(compiled, open(answer, "w"))
"""
_LABEL = re.compile(r"^(\.LBB\w+):")
_BRANCH = re.compile(r"^\s+s_c?branch\w*\s+(\.LBB\w+)")
_MFMA = re.compile(r"^\s+v_mfma_\w+?_(\d+)x(\d+)x(\d+)", re.MULTILINE)


class PlainCode(Struct, frozen=True):
    """A kernel as Triton alone compiles it.

    Args:
        name: of the function.
        assembly: AMDGCN.
        ttgir: Triton's GPU IR.
        shared: bytes of LDS of a workgroup.
        num_warps: waves of a workgroup.
        constants: constexprs, and arguments that were specialised away, by name.
    """

    name: str
    assembly: str
    ttgir: str
    shared: int
    num_warps: int
    constants: Mapping[str, Any]

    @property
    def spills(self) -> int:
        """VGPRs that are spilled."""
        found = re.search(r"^\s+\.vgpr_spill_count:\s+(\d+)", self.assembly, re.MULTILINE)
        if found is None:
            raise ValueError(f"{self.name}: no .vgpr_spill_count")
        return int(found[1])

    def count(self, pattern: str) -> int:
        """Instructions whose mnemonic matches a whole pattern."""
        return len(re.findall(rf"^\s+(?:{pattern})(?=\s|$)", self.assembly, re.MULTILINE))

    def in_loops(self, pattern: str) -> int:
        """Those of them in innermost loops."""
        matching = re.compile(rf"^\s+(?:{pattern})(?=\s|$)", re.MULTILINE)
        return sum(len(matching.findall(text)) for text in innermost_loops(self.assembly))

    def products_per_iteration(self) -> int:
        """Multiply-accumulates that the matrix units of a workgroup make in an innermost loop."""
        each = sum(
            int(m) * int(n) * int(k)
            for text in innermost_loops(self.assembly)
            for m, n, k in _MFMA.findall(text)
        )
        return each * self.num_warps


def innermost_loops(assembly: str) -> Iterator[str]:
    """The texts between a label and the last branch back to it, with no such inside."""
    lines = assembly.splitlines()
    at = {label[1]: n for n, line in enumerate(lines) if (label := _LABEL.match(line))}
    ends: dict[int, int] = {}
    for number, line in enumerate(lines):
        branch = _BRANCH.match(line)
        if branch is not None and at.get(branch[1], number) < number:
            ends[at[branch[1]]] = number
    for first, last in ends.items():
        if not any(first < other and end < last for other, end in ends.items()):
            yield "\n".join(lines[first : last + 1])


def compiled(
    script: Path, arch: str = "gfx942", environment: Mapping[str, str] | None = None
) -> PlainCode:
    """Compiles the one launch of a script.

    Args:
        script: with a function `main(device)`.
        arch: gfx name.
        environment: more variables, such as Triton's knobs.

    Raises:
        ValueError: it does not compile, or launches not one kernel.
    """
    with tempfile.TemporaryDirectory(prefix="plain-triton-") as folder:
        answer = Path(folder) / "answer.json"
        own = {**os.environ, **(environment or {}), "TRITON_CACHE_DIR": folder}
        own.pop("PYTHONPATH", None)
        done = subprocess.run(
            [sys.executable, "-c", _COMPILE, str(script), arch, str(answer)],
            env=own,
            capture_output=True,
            text=True,
            errors="backslashreplace",
            timeout=600,
        )
        if done.returncode:
            reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise ValueError(f"{script}: {reason}")
        kernels = json.loads(answer.read_text())
    if len(kernels) != 1:
        raise ValueError(f"{script}: {len(kernels)} launches")
    return PlainCode(**kernels[0])
