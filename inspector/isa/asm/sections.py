"""Which section an assembly text is in: data directives mean code in one, and nothing in others."""

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


class Sections:
    """The current section. A text begins in `.text`."""

    def __init__(self) -> None:
        self._name = self._before = ".text"
        self._pushed: list[tuple[str, str]] = []

    @property
    def is_code(self) -> bool:
        """Whether what is assembled now may be executed."""
        return self._name.startswith(".text")

    def switch(self, directive: str, operands: str) -> None:
        """Acts on one of `SECTION_DIRECTIVES`.

        Args:
            directive: with its dot.
            operands: what follows it, without comments.
        """
        if directive == ".popsection":
            if self._pushed:
                self._name, self._before = self._pushed.pop()
            return
        if directive == ".previous":
            self._name, self._before = self._before, self._name
            return
        if directive == ".pushsection":
            self._pushed.append((self._name, self._before))
        named = directive in (".section", ".pushsection")
        name = operands.partition(",")[0].strip().strip('"') if named else directive
        self._before, self._name = self._name, name
