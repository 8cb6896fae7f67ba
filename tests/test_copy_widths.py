"""The widest copies past the registers into LDS, by target, against what LLVM assembles."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from kinspect.inspector.pipeline.analysis import analyze_text
from kinspect.inspector.pipeline.analysis_options import Context

MC = shutil.which("llvm-mc-22")
CODE = (
    '.amdgcn_target "amdgcn-amd-amdhsa--{arch}"\n.text\n.globl k\n.type k,@function\nk:\n{code}\n'
)
TAIL = "s_endpgm\n.Lend:\n.size k, .Lend-k\n"
DWORD, FOUR = (f"buffer_load_{name} v1, s[0:3], 0 offen lds" for name in ("dword", "dwordx4"))


def share(arch: str, code: str) -> object:
    (report,) = analyze_text(CODE.format(arch=arch, code=code) + TAIL, Context(path="k.s"))
    return report.metrics["vectorized.lds_direct"].value


@pytest.mark.skipif(MC is None, reason="LLVM 22 is not installed")
@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", "gfx950"])
def test_a_dword_is_the_widest_copy_where_llvm_has_no_wider_one(arch: str) -> None:
    command = [str(MC), "-triple=amdgcn", f"-mcpu={arch}"]
    has_wide = subprocess.run(command, input=FOUR, text=True, capture_output=True).returncode == 0
    assert share(arch, DWORD) == (0.0 if has_wide else 1.0)
    if has_wide:
        assert share(arch, f"{DWORD}\n{FOUR}") == 0.5
