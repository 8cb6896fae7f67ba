"""The seven questions of a new user, each answered in a few keys on a kernel compiled now."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from kept_compiles import collect_kept
from kinspect.benchmarks import walk
from kinspect.benchmarks.walk import MOST_KEYS, QUESTIONS, Question
from kinspect.inspector.model import Report
from tui_screens import text_of

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "terminal.md"
SIGNS = {"down": "↓", "enter": "⏎", "shift+tab": "⇧⇥"}


@pytest.fixture(scope="module")
def attention() -> Report:
    pytest.importorskip("triton")
    return collect_kept(walk.request())


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.picture)
async def test_is_answered_in_a_few_keys(attention: Report, question: Question) -> None:
    """In the smallest terminal, and then in others as well."""
    assert len(question.keys) <= MOST_KEYS
    sizes = ((80, 24), walk.SIZE, (200, 60))
    screens: list[str] = []
    await walk.answer(attention, question, lambda app: screens.append(text_of(app)), *sizes)
    assert len(screens) == len(sizes)
    for screen in screens:
        missing = [answer for answer in question.answers if not re.search(answer, screen)]
        assert not missing, screen


def test_the_page_shows_keys_and_pictures() -> None:
    text = PAGE.read_text()
    for question in QUESTIONS:
        keys = " ".join(f"`{SIGNS.get(key, key)}`" for key in question.keys)
        assert f"## {question.question}\n\n{keys}" in text
        assert f"(terminal/{question.picture}.svg)" in text
        assert (PAGE.parent / "terminal" / f"{question.picture}.svg").is_file()
