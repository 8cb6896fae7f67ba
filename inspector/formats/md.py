"""The report as Markdown, for pull requests and notes.

What a kernel's author wrote shows as it is: it becomes no HTML, image, link, mention or command.
`inline`, `code`, `cell`, `address` and `table` write such texts, also for other Markdown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TextIO

from ..base.printable import one_line, printable_line
from ..base.streams import no_commands
from ..explain import loop_view, occupancy_view, time_view, view
from ..explain.emulated_view import emulated_lines
from ..explain.trials_view import tried_lines
from ..model import Finding, KernelReport, Metric, Report, int_of, value_of

_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "@": "&#64;"}
_ACTIVE = re.compile(r"[&<>@`]|(?<=\])\(|(?<=!)\[|~(?=~)|\\(?=[!-/:-@\[-`{-~]|$)")
"""What would begin markup, also a backslash that would escape the character behind it."""
_WORD = re.compile(r"[^\s`\\|]+")
_REFERENCE = re.compile(r"://|www\.|@\w|#\d|(?<![^\W_])GH-\d", re.IGNORECASE)
"""What GitHub makes links and mentions of, unless it is code: addresses, people, issues."""
_TICKS = re.compile("`+")
_SPAN = re.compile(r"((?<!`)`(?:[^`\\|]|\\(?!\|)|(?<!\\)\|)+`(?!`))")
"""Code between two backticks that stand alone: runs of several pair otherwise in Markdown. A bar
behind a backslash would end it in a table."""


def write(report: Report, stream: TextIO) -> None:
    """Writes a summary table and a section per kernel."""
    lines: list[str] = ["# kinspect report", ""]
    if report.kernels:
        lines += _summary(report.kernels)
    for kernel in report.kernels:
        lines += _kernel(kernel)
    if report.errors:
        lines += ["## Failed", ""]
        lines += _table_block(
            ("file", "kernel", "stage", "what", "next step"),
            ((e.file or "", e.kernel or "", e.stage, e.message, e.hint) for e in report.errors),
        )
    stream.write(no_commands("\n".join(lines).rstrip()) + "\n")


def _summary(kernels: Sequence[KernelReport]) -> list[str]:
    """Returns a table with one line per kernel."""
    titles = ["kernel", "case", "arch", "VGPRs", "spills", "in hot loop", "LDS", "waves/EU"]
    marked = any(map(view.assumption_mark, kernels))
    return _table_block(
        (*titles, "findings", *(["assumed"] if marked else [])),
        (
            (
                k.name,
                (k.variant.case or "") if k.variant else "",
                k.arch or view.UNKNOWN,
                view.show(value_of(k.metrics, "vgpr_count")),
                view.show(value_of(k.metrics, "vgpr_spill_count")),
                str(view.hot_scratch(k)),
                view.kib(int_of(k.metrics, "lds_bytes")),
                view.show(value_of(k.metrics, "occupancy.waves_per_eu")),
                view.findings_summary(k),
                *([view.assumption_mark(k)] if marked else []),
            )
            for k in kernels
        ),
    )


def _kernel(kernel: KernelReport) -> list[str]:
    """Returns a kernel's section: resources, loops, accesses, findings and notes."""
    case = f" {code(kernel.variant.case)}" if kernel.variant and kernel.variant.case else ""
    lines = [f"## {code(kernel.name)}{case} on {inline(kernel.arch or 'an unknown target')}", ""]
    configuration = view.configuration(kernel)
    if configuration:
        lines += [inline(configuration), ""]
    if kernel.time is not None:
        lines += [f"**{inline(time_view.summary(kernel.time))}**", ""]
    if assumed := view.assumed(kernel):
        lines += [f"**{inline(assumed[0].upper() + assumed[1:])}**", ""]
    if emulated := view.emulated(kernel):
        lines += [inline(emulated[0].upper() + emulated[1:]), ""]
    lines += _resources(kernel.metrics)
    occupancy = "; ".join(occupancy_view.occupancy_lines(kernel))
    lines += [f"**Occupancy** {inline(occupancy)}", ""]
    if kernel.unread:
        lines += [f"**Note:** {inline(view.unread(kernel))}.", ""]
    lines += _loops(kernel)
    rows = loop_view.memory_rows(kernel.memory_ops, kernel.main_loop)
    if rows:
        lines += _table_block(
            ("accesses", "bits", "source", "note"),
            ((f"{r.count} × `{r.mnemonic}`", view.show(r.bits), r.places, r.note) for r in rows),
        )
    title, *figures = emulated_lines(kernel) or [""]
    if title:
        items = [f"- {inline(text.strip())}" for text in figures]
        lines += [f"**{inline(title)}**", "", *items, ""]
    lines += [f"{inline(view.findings_summary(kernel))}.", ""]
    for finding in kernel.findings:
        lines.append(_item(finding))
        if finding.advice:
            lines.append(f"  {inline(finding.advice)}")
        lines += [f"  - {inline(text)}" for text in tried_lines(finding)]
    lines += [f"- note: {inline(note)}" for note in kernel.notes]
    return [*lines, ""]


def _item(finding: Finding) -> str:
    """The first line of a finding."""
    where = view.finding_place(finding)
    place = f" ({inline(where)})" if where else ""
    saving = f" ({inline(view.saving(finding))})" if view.saving(finding) else ""
    told = f"{inline(finding.rule)}{saving}: {inline(finding.message)}{place}"
    return f"- **{finding.severity}** {told}"


def _resources(m: Mapping[str, Metric]) -> list[str]:
    """Returns the table of a kernel's registers and memory."""
    return _table_block(
        ("VGPRs", "AGPRs", "SGPRs", "spills", "scratch", "LDS", "code"),
        [
            (
                _used_of(
                    view.show(value_of(m, "vgpr_count")), view.show(value_of(m, "vgpr_limit"))
                ),
                view.show(value_of(m, "agpr_count")),
                view.show(value_of(m, "sgpr_count")),
                view.show(value_of(m, "vgpr_spill_count")),
                view.kib(int_of(m, "scratch_bytes")),
                _used_of(view.kib(int_of(m, "lds_bytes")), view.kib(int_of(m, "lds_limit"))),
                view.kib(int_of(m, "code_bytes")),
            )
        ],
    )


def _loops(kernel: KernelReport) -> list[str]:
    """Returns the figures of the hot loops; of the whole kernel if it has no main loop."""
    lines: list[str] = []
    for loop in kernel.loops:
        if loop.hot:
            lines += [f"**Hot loop {inline(loop.id)}** {inline(loop_view.loop_title(loop))}", ""]
            pairs = loop_view.scorecard(loop.metrics)
            lines += _table_block([p[0] for p in pairs], [[p[1] for p in pairs]])
    if kernel.main_loop is None and int_of(kernel.metrics, "instruction_count") is not None:
        pairs = loop_view.scorecard(kernel.metrics)
        lines += [f"**{inline(view.no_loop(kernel))}**; the whole kernel:", ""]
        lines += _table_block([p[0] for p in pairs], [[p[1] for p in pairs]])
    return lines


def _used_of(used: str, limit: str) -> str:
    return f"{used} of {limit}"


def _table_block(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Returns a table and the empty line that ends it."""
    return [*table(titles, rows), ""]


def table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yields the lines of a table; cells are sentences, see `inline`."""

    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell(inline(text)) for text in cells) + " |"

    yield line(titles)
    yield "|" + " --- |" * len(titles)
    yield from map(line, rows)


def inline(text: str) -> str:
    """A sentence in which only code between single backticks is markup; references become code."""
    pieces = _SPAN.split(printable_line(text))
    line = ""
    for n, piece in enumerate(pieces):
        shown = piece if n % 2 else references_as_code(piece, _inert)
        touch = line.endswith("`") and shown.startswith("`")
        line += f" {shown}" if touch else shown
    return line


def code(text: str) -> str:
    """A name as code, whatever it holds."""
    line = printable_line(text)
    runs = _TICKS.findall(line)
    if not runs:
        return f"`{line}`"
    fence = "`" * (max(map(len, runs)) + 1)
    return f"{fence} {line} {fence}"


def cell(text: str) -> str:
    """Escapes text for a cell of a table, which a bar would end, in code too."""
    return text.replace("|", "\\|").replace("\n", " ")


def address(url: str) -> str:
    """An address that does not end the `<...>` it stands in."""
    return one_line(url).replace("<", "%3C").replace(">", "%3E").replace(" ", "%20")


def link(title: str, url: str) -> str:
    """A link in Markdown; another address than of the web stands beside the title as code."""
    if url.startswith(("https://", "http://")):
        return f"[{inline(title)}](<{address(url)}>)"
    return f"{inline(title)} {code(url)}"


def references_as_code(text: str, escape: Callable[[str], str]) -> str:
    """Escaped text, but code of each word that GitHub would make a link or mention of."""
    if _REFERENCE.search(text) is None:
        return escape(text)
    pieces, end = [], 0
    for word in _WORD.finditer(text):
        if _REFERENCE.search(word[0]):
            pieces += [escape(text[end : word.start()]), f"`{word[0]}`"]
            end = word.end()
    return "".join((*pieces, escape(text[end:])))


def is_reference(text: str) -> bool:
    """Whether GitHub would make a link or mention of a part of the text."""
    return _REFERENCE.search(text) is not None


def _inert(text: str) -> str:
    return _ACTIVE.sub(lambda match: _ENTITIES.get(match[0], f"\\{match[0]}"), text)
