"""Findings laid out to be judged by hand: one YAML row each, with the code that it is about.

    python -m benchmarks.judging TARGET... [--arch gfx942,gfx950] [--pack recommended,strict] [--rule KI0*]
        [--most 5] > rows.yaml

Each row states the finding, the instructions and TTGIR operations at its places, the source line, and
four fields to fill in: `claim` (whether the message is so in the code), `cause` (whether the reason
it gives is the right one), `fix` (`helped`, `nothing`, `worse` or `not tried`) and `reason`.
"""  # noqa: E501 - a command line

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import yaml
from kinspect.inspector.base.errors import KinspectError
from kinspect.inspector.compare.diff.isa import text_of_artifacts
from kinspect.inspector.lint.packs import load_packs
from kinspect.inspector.model import Artifact, Finding, KernelReport, Report, TtgirModule
from kinspect.inspector.pipeline.analysis import catalogue
from kinspect.inspector.pipeline.analysis_options import AnalysisOptions
from kinspect.inspector.pipeline.collecting import collect
from kinspect.inspector.pipeline.jobs import Request
from kinspect.inspector.ttgir.parser import parse_ttgir
from msgspec.structs import replace

AROUND = 2
"""Lines of code shown before and after one that a finding names."""
MOST_LINES = 24
"""Lines of code, and operations of the TTGIR, that a row shows at most."""
TO_JUDGE = ("claim", "cause", "fix", "reason")


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as they are."""


def _text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def main() -> int:
    """Analyses the targets and writes the rows."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("targets", nargs="+")
    parser.add_argument("--arch", default="")
    parser.add_argument("--pack", default="recommended")
    parser.add_argument("--rule", default="*", help="only such rules, e.g. KI02*")
    parser.add_argument("--most", type=int, help="rows of each rule at most")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    packs = load_packs(options.pack.split(","), catalogue())
    rules = {rule.text.id: rule for pack in packs for rule in pack.rules}
    pack = replace(packs[0], rules=tuple(rules.values()))
    archs = tuple(filter(None, options.arch.split(",")))
    request = Request(
        tuple(options.targets),
        archs,
        jobs=options.jobs,
        passes=False,
        analysis=AnalysisOptions(rules=pack),
    )
    report = collect(request)
    for error in report.errors:
        sys.stderr.write(f"{error.file} {error.kernel or ''}: {error.stage}: {error.message}\n")
    status = {rule.text.id: str(rule.text.status) for rule in pack.rules}
    counts: dict[str, int] = {}
    for row in rows(report, status):
        rule = row["rule"]
        counts[rule] = counts.get(rule, 0) + 1
        if fnmatchcase(rule, options.rule) and counts[rule] <= (options.most or counts[rule]):
            sys.stdout.write(
                yaml.dump([row], Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)
            )
    return 0


def rows(report: Report, status: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """A row for each finding of a report.

    Args:
        report: with artifacts, where the code is to be shown.
        status: rule's id -> `stable` or `preview`.
    """
    for kernel in report.kernels:
        code = (text_of_artifacts(kernel) or _own_text(kernel)).splitlines()
        module = _ttgir(kernel)
        for finding in kernel.findings:
            yield _row(kernel, finding, status.get(finding.rule, ""), code, module)


def _row(
    kernel: KernelReport,
    finding: Finding,
    status: str,
    code: Sequence[str],
    module: TtgirModule | None,
) -> dict[str, Any]:
    lines = [at.line for at in finding.locations if at.kind == "amdgcn" and at.line]
    places = {
        (at.file.rpartition("/")[2], at.line)
        for at in finding.locations
        if at.kind == "source" and at.file and at.line
    }
    variant = kernel.variant
    found: dict[str, Any] = {
        "rule": finding.rule,
        "status": status,
        "severity": finding.severity,
        "confidence": finding.confidence,
        "file": kernel.file,
        "kernel": kernel.name,
        "case": variant.case if variant is not None else None,
        "arch": kernel.arch,
        "place": ", ".join(f"{file}:{line}" for file, line in sorted(places)),
        "said": finding.message,
        "evidence": {name: _plain(value) for name, value in finding.evidence.items()},
        "source": "\n".join(_source(finding)),
        "isa": "\n".join(_around(code, lines)),
        "ttgir": "\n".join(_operations(module, places)),
        "advice": finding.fix,
    }
    return {**found, **dict.fromkeys(TO_JUDGE)}


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else value


def _source(finding: Finding) -> Iterator[str]:
    for at in finding.locations:
        if at.kind == "source":
            yield f"{(at.file or '').rpartition('/')[2]}:{at.line}: {at.text.strip()}"


def _around(code: Sequence[str], lines: Iterable[int]) -> list[str]:
    """Those lines with what stands around them; the named ones are marked."""
    named = set(lines)
    shown = sorted({n for line in named for n in range(line - AROUND, line + AROUND + 1)})
    texts = [
        f"{'>' if n in named else ' '} {n}: {' '.join(code[n - 1].split())}"
        for n in shown
        if 0 < n <= len(code)
    ]
    return _short(texts)


def _operations(module: TtgirModule | None, places: Collection[tuple[str, int]]) -> list[str]:
    """The operations of the TTGIR that stand at some lines of the source."""
    texts = []
    for op in module.ops if module is not None else ():
        if op.loc is None:
            continue
        user = op.loc.in_user_code
        if (user.file.rpartition("/")[2], user.line) in places:
            results = ", ".join(of.text for of in op.result_types)
            operands = ", ".join(of.text for of in op.operand_types)
            texts.append(f"{op.line}: {op.name} ({operands}) -> ({results})")
    return _short(texts)


def _short(texts: list[str]) -> list[str]:
    more = len(texts) - MOST_LINES
    return [*texts[:MOST_LINES], f"({more} more)"] if more > 0 else texts


def _own_text(kernel: KernelReport) -> str:
    """The target itself where it is an assembly text."""
    path = Path(kernel.file)
    if path.suffix not in (".s", ".S", ".asm", ".amdgcn"):
        return ""
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""


def _ttgir(kernel: KernelReport) -> TtgirModule | None:
    artifact: Artifact | None = kernel.artifacts.get("ttgir")
    if artifact is None:
        return None
    try:
        return parse_ttgir(artifact.path.read_text("utf-8", "replace"), artifact.path.name)
    except (KinspectError, OSError):
        return None


if __name__ == "__main__":
    sys.exit(main())
