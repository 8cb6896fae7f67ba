"""Writes benchmarks/triton_diff.md: the bundled kernels compiled by two Tritons, compared.

    python -m benchmarks.triton_diff OLDER NEWER [--arch gfx942] [--jobs 2]

OLDER and NEWER are what `kinspect diff --triton` takes: labels of KINSPECT_TRITONS, or paths.
What was judged by hand stands in triton_diff_judged.md and is taken over as it is.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PAGE = HERE / "triton_diff.md"
JUDGED = HERE / "triton_diff_judged.md"
ORDER = ("regression", "mixed", "unknown", "improvement")


def main() -> int:
    """Runs `kinspect diff` over `kernels/` and writes the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("older")
    parser.add_argument("newer")
    parser.add_argument("--arch", default="gfx942")
    parser.add_argument("--jobs", default="2")
    options = parser.parse_args()
    command = [sys.executable, "-m", "kinspect.inspector.cli", "diff", "kernels"]
    command += ["--triton", options.older, "--triton", options.newer, "--arch", options.arch]
    command += ["--jobs", options.jobs, "--format", "json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, cwd=HERE.parent, check=False)
    if not done.stdout:
        return done.returncode
    document = json.loads(done.stdout)
    PAGE.write_text(page(document, options.arch), encoding="utf-8")
    return done.returncode


def page(document: Mapping[str, Any], arch: str) -> str:
    """The page of one comparison."""
    left, right = document["left"], document["right"]
    pairs: Sequence[Mapping[str, Any]] = document["pairs"]
    counts = Counter(pair["verdict"] for pair in pairs)
    said = ", ".join(f"{n} {verdict}" for verdict, n in counts.most_common())
    parts = [
        "# Two Tritons, one set of kernels\n",
        f"All bundled kernels, compiled for {arch} by {left} and by {right} (with LLVM as each\n"
        "ships it), compared by `kinspect diff`; made by `python -m benchmarks.triton_diff`. No\n"
        "GPU was used. *regression* says that the second one's code is worse. Facts of the code\n"
        "are compared, not times. Both compile the TTIR of the first one's front end, where the\n"
        "second understands it. Neutral kernels and figures that do not decide are left out.\n",
        f"{len(pairs)} pairs: {said}; {len(document['errors'])} could not be compared.\n",
        "## Where they begin to differ\n",
        _stages(pairs),
        "## Kernels in which something that matters changed\n",
        _kernels(pairs),
    ]
    if JUDGED.exists():
        parts.append(JUDGED.read_text(encoding="utf-8"))
    return "\n".join(parts)


def _stages(pairs: Iterable[Mapping[str, Any]]) -> str:
    found: dict[tuple[str, str], Counter[str]] = {}
    for pair in pairs:
        stages = pair["stages"] or {}
        key = (stages.get("first") or "none", _cause(stages))
        found.setdefault(key, Counter())[pair["verdict"]] += 1
    lines = [
        "| stage | made by | kernels | regression or mixed | improvement |",
        "|---|---|--:|--:|--:|",
    ]
    for (stage, cause), verdicts in sorted(found.items(), key=lambda i: -i[1].total()):
        worse = verdicts["regression"] + verdicts["mixed"]
        better = verdicts["improvement"]
        lines.append(f"| {stage} | {cause} | {verdicts.total()} | {worse} | {better} |")
    return "\n".join(lines) + "\n"


def _cause(stages: Mapping[str, Any]) -> str:
    """What made the first difference; a pass without its numbers in the two pipelines."""
    return re.sub(r" \(number [^)]*\)", "", stages.get("made_by") or "")


def _kernels(pairs: Iterable[Mapping[str, Any]]) -> str:
    lines = ["| kernel | verdict | first stage | made by | what |", "|---|---|---|---|---|"]
    listed = [pair for pair in pairs if pair["verdict"] in ORDER]
    for pair in sorted(listed, key=lambda p: ORDER.index(p["verdict"])):
        stages = pair["stages"] or {}
        what = "; ".join(c["why"].replace("|", "/") for c in pair["changes"] if c["matters"])
        lines.append(
            f"| `{pair['kernel']}` | {pair['verdict']} | {stages.get('first') or ''}"
            f" | {_cause(stages)} | {what} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
