"""Makes `gemm.mlir.xz` afresh: `python tests/data/passes/regenerate.py`; needs Triton.

The dump is what MLIR wrote but for the folders in its debug locations, which differ from machine to
machine. It is packed: a dump repeats the module once a pass.
"""

from __future__ import annotations

import lzma
import re
import tempfile
from pathlib import Path

from kinspect.inspector.capture.script import capture_script
from kinspect.inspector.compile.pool import Compiler, CompileSettings

HERE = Path(__file__).parent
KERNELS = HERE.parent / "guest_kernels.py"


def main() -> None:
    """Compiles `gemm` of tests/data/guest_kernels.py for gfx942 and keeps its dump."""
    with tempfile.TemporaryDirectory() as folder:
        settings = CompileSettings(cache_dir=Path(folder), passes=True)
        with Compiler(settings) as compiler:
            with compiler.worker() as worker:
                (variant,), _ = capture_script(worker, KERNELS, ["gfx942"], ("gemm",))
            result = compiler.compile(variant)
        if result.error is not None:
            raise SystemExit(result.error.message)
        text = result.artifacts["passes"].path.read_text("utf-8")
    text = re.sub(r'"/[^"\n]*/', '"/', text)
    (HERE / "gemm.mlir.xz").write_bytes(lzma.compress(text.encode(), preset=9))


if __name__ == "__main__":
    main()
