"""Puts results of `kinspect bench` into RESULTS.md: `python -m benchmarks.bench_results FILE...`.

FILE: what `kinspect bench NAME --compare torch --format json` wrote, or several such documents one
after the other, or that with gzip. A case that stands in several files is taken from the last.
Kernels of which no file speaks keep the section that they have, if it is from the same device and
versions: figures of two machines do not stand in one table.
"""

from __future__ import annotations

import gzip
import json
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

OUT = Path(__file__).with_name("RESULTS.md")
AIMS = {
    "gemm_all_types": 0.7,
    "gemm_streamk": 0.7,
    "flash_attn": 0.7,
    "fused_attn_transv": 0.7,
    "fused_attn_fwd_transv": 0.7,
    "softmax": 0.9,
    "rmsnorm": 0.9,
    "layernorm": 0.9,
    "hbm_bw": 0.9,
    "vector_add": 0.9,
}
"""Kernel -> the least multiple of torch's speed that was aimed at."""

WHY = {
    "gemm_streamk": """\
Under half of torch are the shapes whose K, 6878 and 8172, is no multiple of 16:
Triton knows of a stride whether 16 divides it and nothing else, so each load moves one value of 2
bytes, too narrow to be copied asynchronously, and nothing is pipelined. With K 6912 in place of
6878 the same kernel has 0.75 of torch's speed (0.89 in the atomic form), with 8192 in place of
8172 it is the faster one (8133 × 8132: 1.9). torch loses two thirds of its own speed on them.""",
}
"""Kernel -> what explains its slow rows, each figure measured on the device above."""

HEAD = """# The bundled kernels on a GPU

Made by `python -m benchmarks.bench_results` from what `kinspect bench NAME --compare torch`
measured. {device}.

**No AMD GPU was available**: the kernels are written for AMD's, and nothing here says how fast they
are there.

Every case was checked against its reference before it was timed, and again after. Times are those
of the device, of up to 100 runs with the caches overwritten between them (gpumode's stop rule);
"× torch" is the time of torch's own operator on the same inputs over ours. torch's side includes
the casts, transposes and loops over groups that it needs where it has no operator for the job, so
that only GEMM, attention without transposed values or float8, norms, softmax and bandwidth compare
like with like.
"""


def main() -> None:
    """Reads the files and writes RESULTS.md."""
    results: dict[str, dict[str, dict[str, Any]]] = {}
    devices: dict[str, None] = {}
    for document in documents(sys.argv[1:]):
        devices[device_of(document)] = None
        cases = results.setdefault(document["kernel"], {})
        for case in document["cases"]:
            # A number without a comparison does not replace one that has it.
            if case["status"] != "ok" and case["name"] in cases:
                continue
            cases[case["name"]] = case
    device = "; ".join(devices)
    sections = earlier_tables(OUT.read_text(encoding="utf-8"), device) if OUT.exists() else {}
    known_aims = {row.split("|")[1].strip(): row for row in sections.pop("Aims", [])[2:]}
    sections |= {kernel: table(list(cases.values())) for kernel, cases in results.items()}
    lines = [HEAD.format(device=device), "## Aims", "", *aims(results, known_aims)]
    for kernel, rows in sorted(sections.items()):
        lines += ["", f"## {kernel}", "", *rows]
        if kernel in WHY:
            lines += ["", WHY[kernel]]
    OUT.write_text("\n".join(lines) + "\n", encoding="utf-8")


def earlier_tables(text: str, device: str) -> dict[str, list[str]]:
    """The tables of an earlier RESULTS.md, heading -> lines; none if it is of another device."""
    if f" measured. {device}.\n" not in text.replace("\nmeasured.", " measured."):
        return {}
    sections: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line.startswith("## "):
            sections[line[3:]] = rows = []
        elif line.startswith("|") and sections:
            rows.append(line)
    return sections


def documents(paths: list[str]) -> Iterator[dict[str, Any]]:
    """All JSON documents in the files, in their order."""
    decoder = json.JSONDecoder()
    for path in paths:
        data = Path(path).read_bytes()
        text = (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode()
        place = 0
        while place < len(text):
            document, end = decoder.raw_decode(text, place)
            yield document
            place = end + len(text[end:]) - len(text[end:].lstrip())


def device_of(document: dict[str, Any]) -> str:
    """Device and versions that a document was measured with."""
    versions, device = document["versions"], document["device"]
    known = " ".join(f"{name} {text}" for name, text in versions.items() if text)
    return f"{device['name']} ({device['arch']}), {known}"


def times_torch(case: dict[str, Any]) -> float | None:
    """How many times as fast as torch; None where it was not compared."""
    compared = (case.get("compare") or {}).get("torch") or {}
    times = compared.get("times")
    return float(times) if times is not None else None


def aims(results: dict[str, dict[str, dict[str, Any]]], earlier_rows: dict[str, str]) -> list[str]:
    """The table of aims; a kernel of which nothing was measured has the row that is known of it."""
    lines = [
        "| kernel | aim, × torch | cases compared | geometric mean | least | under the aim |",
        "|---|--:|--:|--:|--:|---|",
    ]
    for kernel, aim in AIMS.items():
        cases = results.get(kernel, {}).values()
        ratios = {c["name"]: r for c in cases if (r := times_torch(c)) is not None}
        if not ratios:
            lines += [earlier_rows[kernel]] if kernel in earlier_rows else []
            continue
        under = [f"{name} ({ratio:.2f})" for name, ratio in ratios.items() if ratio < aim]
        mean = statistics.geometric_mean(ratios.values())
        lines.append(
            f"| {kernel} | {aim:g} | {len(ratios)} | {mean:.2f} | {min(ratios.values()):.2f} "
            f"| {', '.join(under) or 'none'} |"
        )
    return lines


def table(cases: list[dict[str, Any]]) -> list[str]:
    """The rows of one kernel's cases."""
    lines = [
        "| case | best µs | mean µs | runs | TFLOPS | GiB/s | torch, mean µs | × torch |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for case in cases:
        if case["status"] != "ok":
            lines.append(f"| {case['name']} | {case['status']}: {case['message']} | | | | | | |")
            continue
        ratio, torch = times_torch(case), (case.get("compare") or {}).get("torch") or {}
        cells = [
            case["name"],
            f"{case['best_us']:.1f}",
            f"{case['mean_us']:.1f}",
            str(case["runs"]),
            "" if not case["tflops"] else f"{case['tflops']:.1f}",
            "" if not case["gib_per_s"] else f"{case['gib_per_s']:.0f}",
            "" if torch.get("mean_us") is None else f"{torch['mean_us']:.1f}",
            "" if ratio is None else f"{ratio:.2f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


if __name__ == "__main__":
    main()
