"""The current section of a unit of assembly."""

from __future__ import annotations

SECTION_DIRECTIVES = (
    ".text",
    ".data",
    ".bss",
    ".rodata",
    ".section",
    ".pushsection",
    ".popsection",
    ".previous",
)
"""Directives after which what follows belongs to another section."""


class SectionStack:
    """The current section; a text begins in `.text`.

    Data directives are code in `.text`, and nothing of interest elsewhere.
    """

    def __init__(self) -> None:
        self._name = self._previous = ".text"
        self._pushed: list[tuple[str, str]] = []

    @property
    def is_code(self) -> bool:
        """Whether the current section holds code."""
        return self._name.startswith(".text")

    def switch(self, directive: str, operands: str) -> None:
        """Acts on one of `SECTION_DIRECTIVES`.

        Args:
            directive: the directive, with its dot.
            operands: its operands, without comments.
        """
        if directive == ".popsection":
            if self._pushed:
                self._name, self._previous = self._pushed.pop()
            return
        if directive == ".previous":
            self._name, self._previous = self._previous, self._name
            return
        if directive == ".pushsection":
            self._pushed.append((self._name, self._previous))
        is_named = directive in (".section", ".pushsection")
        name = operands.partition(",")[0].strip().strip('"') if is_named else directive
        self._previous, self._name = self._name, name
