"""Whether the emulator finds fault with code that has none: the cases of the bundled kernels.

    python -m benchmarks.emulated_findings [--arch gfx942 …] [--kernel softmax …] [-o LOG]

Every case is compiled by the installed Triton for each target and launched, as
`kinspect check --device emulated` does. It prints how many different compiles ran and every
finding; each is a defect of that code or of the emulator.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from kinspect.inspector.bench import checking
from kinspect.inspector.bench.suite import catalogue
from kinspect.inspector.pipeline.emulating import Service

ARCHS = ("gfx942", "gfx950", "gfx90a", "gfx1100", "gfx1201")


class LoggingService(Service):
    """Executes launches as the real one does, and writes down what was found in each."""

    def __init__(self, descriptor: int, log: Path) -> None:
        super().__init__(descriptor, 1)
        self._log = log
        self._compiles: dict[str, dict[str, str]] = {}

    def answer(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """See `Service`."""
        reply = super().answer(message)
        if "load" in message:
            code = "\n".join(
                line for line in message["text"].splitlines() if not line.startswith("\t.loc")
            )
            digest = hashlib.sha256(code.encode()).hexdigest()
            self._compiles[message["load"]] = {"arch": message["arch"], "code": digest}
            return reply
        key = message["launch"]["kernel"]
        record = {
            "kernel": key,
            **self._compiles[key],
            "findings": reply.get("troubles", []),
            "error": reply.get("error"),
            "seconds": reply.get("seconds"),
        }
        with self._log.open("a") as stream:
            stream.write(json.dumps(record) + "\n")
        return reply


def serve(log: Path, descriptor: int) -> None:
    """The process that a guest starts: JSON lines in, JSON lines out (`pipeline.emulating`)."""
    service = LoggingService(descriptor, log)
    for line in sys.stdin.buffer:
        reply = service.answer(msgspec.json.decode(line))
        sys.stdout.buffer.write(msgspec.json.encode(reply) + b"\n")
        sys.stdout.buffer.flush()


def run(archs: tuple[str, ...], names: list[str], log: Path) -> None:
    """Checks the kernels; failures go to standard output, what the emulator found to the log."""
    command = [sys.executable, "-m", "kinspect.benchmarks.emulated_findings", "--serve", str(log)]
    # The name that `checking` itself calls; mypy does not let others assign to an import.
    vars(checking)["emulator_command"] = lambda profile=None, processes=None: command
    kernels = [catalogue.find(name) for name in names] if names else list(catalogue.bundled())
    request = checking.CheckRequest(
        tuple((catalogue.checkable(kernel), ()) for kernel in kernels),
        device="emulated",
        archs=archs,
        jobs=1,
    )
    for event in checking.check(request):
        if isinstance(event, checking.CaseDone) and event.result.status not in (
            "passed",
            "skipped",
        ):
            sys.stdout.write(
                f"{event.kernel.name} {event.result.case} {event.result.status}: "
                f"{(event.result.message or '')[:300]}\n"
            )
            sys.stdout.flush()


def report(log: Path) -> None:
    """Prints how many compiles ran, and the findings."""
    records = [json.loads(line) for line in log.read_text().splitlines()]
    compiles = {(record["arch"], record["code"]) for record in records}
    by_arch = Counter(arch for arch, _ in compiles)
    findings = {
        (record["arch"], record["kernel"].rsplit("-", 1)[0], found["kind"], found["instruction"]):
        f"{found['file']}:{found['source_line']} line {found['line']}: {found['detail']}"
        for record in records
        for found in record["findings"]
    }  # fmt: skip
    errors = {record["error"] for record in records if record["error"]}
    counts = ", ".join(f"{arch} {count}" for arch, count in sorted(by_arch.items()))
    sys.stdout.write(
        f"{len(compiles)} different compiles ({counts}), {len(records)} launches, "
        f"{len(findings)} findings, {len(errors)} errors\n"
    )
    for place, detail in sorted(findings.items()):
        sys.stdout.write(f"{' '.join(place)}: {detail}\n")
    for error in sorted(errors):
        sys.stdout.write(f"error: {error}\n")


def main() -> int:
    """Runs the cases and prints the findings."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    options.add_argument("--arch", nargs="*", default=list(ARCHS))
    options.add_argument("--kernel", nargs="*", default=[])
    options.add_argument("-o", "--log", type=Path, help="keeps every launch's record here")
    options.add_argument("--serve", nargs=2, metavar=("LOG", "FD"), help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.serve:
        serve(Path(chosen.serve[0]), int(chosen.serve[1]))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        log = chosen.log or Path(folder) / "launches.jsonl"
        log.touch()
        run(tuple(chosen.arch), chosen.kernel, log.resolve())
        report(log)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
