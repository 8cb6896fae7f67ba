"""What the kernel page's window of explanations says of a line."""

from __future__ import annotations

from collections.abc import Iterator

from .card import lds_rows_at
from .linked_texts import LinkedTexts
from .pane import Pane


def explanations(texts: LinkedTexts, pane: Pane) -> Iterator[str]:
    """Texts on the costs, findings and instruction of the cursor's line; some may be empty.

    Of a spill what the slot holds comes first: its findings are those of many others.
    """
    # Rules and instruction tables are read at their first use.
    from ....inspector.explain import lds_map, registers_view
    from ....inspector.explain.code.explanations import explain_finding, explain_instruction
    from ..findings.detail import rules, unit_of

    reading, kind, line = texts.reading, pane.kind, pane.code.cursor
    if texts.costs is not None:
        yield texts.costs.explanation(kind, line)
    instruction = ""
    if kind == "amdgcn":
        inst = reading.marks.instruction(line) if reading is not None else None
        text = pane.code.shown.lines[line]
        instruction = explain_instruction(text if inst is None else inst, texts.report)
    is_spill = reading is not None and kind == "amdgcn" and reading.marks.spill(line) is not None
    if is_spill:
        yield instruction
        if texts.report is not None and texts.report.spilled_values:
            values = map(registers_view.spilled_text, texts.report.spilled_values)
            yield "\n".join(("Spilled values of the kernel:", *values))
    elif texts.report is not None and lds_rows_at(texts.report, kind, line):
        lines = lds_map.row_lines(lds_map.map_rows(texts.report))
        yield "\n".join((lds_map.map_title(texts.report), *lines))
    if reading is not None:
        rule_texts = {name: rule.text for name, rule in rules().items()}
        for finding in reading.marks.findings(line, kind):
            yield explain_finding(finding, rule_texts, unit_of)
    if not is_spill:
        yield instruction
