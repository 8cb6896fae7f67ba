"""Makes the fixtures of the ISA tests: `python tests/data/isa/regenerate.py`.

Needs llc-14, llc-16, llc-22, llvm-objcopy-22 (Debian names) and Triton 3.9; what is missing is
said and left as it stands. Paths of the machine it runs on are taken out of what it writes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
LLC = (
    # output, LLVM version, source, cpu, further options
    ("calls.llvm14.gfx906.s", 14, "calls.ll", "gfx906", ("-opaque-pointers",)),
    ("calls.llvm14v2.gfx906.s", 14, "calls.ll", "gfx906",
     ("-opaque-pointers", "--amdhsa-code-object-version=2")),
    ("calls.llvm16.gfx90a.s", 16, "calls.ll", "gfx90a", ()),
    ("calls.llvm22.gfx90a.s", 22, "calls.ll", "gfx90a", ()),
    ("calls.llvm22.gfx1100.s", 22, "calls.ll", "gfx1100", ()),
    ("far.llvm22.gfx90a.s", 22, "calls.ll", "gfx90a", ("-amdgpu-s-branch-bits=5",)),
    ("far.llvm22.gfx1250.s", 22, "calls.ll", "gfx1250", ("-amdgpu-s-branch-bits=5",)),
    ("located.llvm14.gfx90a.s", 14, "located.ll", "gfx90a", ("-opaque-pointers",)),
    ("located.llvm22.gfx90a.s", 22, "located.ll", "gfx90a", ()),
    ("stack.llvm14.gfx90a.s", 14, "stack.ll", "gfx90a", ("-opaque-pointers",)),
    ("stack.llvm22.gfx90a.s", 22, "stack.ll", "gfx90a", ()),
    ("stackflat.llvm22.gfx90a.s", 22, "stack.ll", "gfx90a", ("-mattr=+enable-flat-scratch",)),
)  # fmt: skip
TRITON = (
    ("calls", "gfx942", {"p": "*fp32", "n": "i32"}, {}),
    ("calls", "gfx1100", {"p": "*fp32", "n": "i32"}, {}),
    *(
        (
            "attend",
            arch,
            {"q_ptr": "*fp16", "k_ptr": "*fp16", "o_ptr": "*fp16", "rows": "i32", "keys": "i32"},
            {"BLOCK_M": 32, "BLOCK_N": 32, "D": 32},
        )
        for arch in ("gfx90a", "gfx950", "gfx1201")
    ),
)


def compile_llvm() -> None:
    for output, version, source, cpu, options in LLC:
        llc = shutil.which(f"llc-{version}")
        if llc is None:
            sys.stderr.write(f"{output}: no llc-{version}\n")
            continue
        command = [llc, *options, f"-mcpu={cpu}", source, "-o", output]
        subprocess.run(command, cwd=HERE, check=True)


def compile_triton() -> None:
    try:
        import triton
        from triton.backends.compiler import GPUTarget
        from triton.compiler import ASTSource
    except ImportError as error:
        sys.stderr.write(f"Triton fixtures: {error}\n")
        return
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["TRITON_CACHE_DIR"] = f"{scratch}/cache"
        source = Path(scratch) / "triton_kernels.py"
        shutil.copy(HERE / source.name, source)
        sys.path.insert(0, scratch)
        import triton_kernels  # the copy: its folder is what gets scrubbed

        library = str(Path(triton.__file__).parent)
        for name, arch, signature, constants in TRITON:
            kernel = getattr(triton_kernels, name)
            full = {**signature, **dict.fromkeys(constants, "constexpr")}
            wave = 64 if arch.startswith("gfx9") else 32
            built = triton.compile(
                ASTSource(kernel, full, constants), target=GPUTarget("hip", arch, wave)
            )
            text = built.asm["amdgcn"].replace(scratch, "/src/kernels")
            text = text.replace(library, "/src/triton")
            for machine_path in (scratch, sys.prefix):
                if machine_path in text:
                    raise SystemExit(f"{name} {arch}: {machine_path} is still in the text")
            stem = HERE / f"{name}.triton39.{arch}"
            stem.with_name(stem.name + ".amdgcn").write_text(text)
            hsaco = stem.with_name(stem.name + ".hsaco")
            hsaco.write_bytes(built.asm["hsaco"])
            # Debug sections hold paths, and nothing here reads them.
            subprocess.run(["llvm-objcopy-22", "--strip-debug", str(hsaco)], check=True)


if __name__ == "__main__":
    compile_llvm()
    compile_triton()
