"""Whether NumPy has threads of its own is decided for processes of kinspect's own alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SMALL = Path(__file__).parent / "data" / "small_gfx942.s"
OWN = "from kinspect.inspector.base.blas_threads import own_process; own_process()"
CODE = """
import os, sys
os.environ.pop("OPENBLAS_NUM_THREADS", None)
import kinspect
seen = set()
class Watch:
    def find_spec(self, name, path=None, target=None):
        if name == "numpy":
            seen.add(os.environ.get("OPENBLAS_NUM_THREADS"))
sys.meta_path.insert(0, Watch())
{own}
kinspect.analyze(sys.argv[1])
print(*seen, os.environ.get("OPENBLAS_NUM_THREADS"))
"""


@pytest.mark.parametrize(("own", "setting"), [("", "None"), (OWN, "1")])
def test_numpy_of_a_script_keeps_its_threads(own: str, setting: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CODE.format(own=own), str(SMALL)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "KINSPECT_CACHE_DIR": str(tmp_path)},  # a kept report needs no NumPy
    )
    assert done.stdout == f"{setting} None\n"
