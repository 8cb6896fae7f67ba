"""The application's one key table: a letter means the same on every page.

Pages and widgets take their bindings from here by the verb, so that no two can disagree; a verb's
name is the binding's id.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType

from textual.binding import Binding, BindingType
from textual.dom import DOMNode

KEYS: Mapping[str, str] = MappingProxyType(
    {
        # Moving
        "down": "down,j",
        "up": "up,k",
        "left": "left,h",
        "right": "right,l",
        "page_down": "pagedown,ctrl+d",
        "page_up": "pageup,ctrl+u",
        "first": "home,g",
        "last": "end,G",
        "shift_down": "shift+down,J",
        "shift_up": "shift+up,K",
        "beside_down": "greater_than_sign",
        "beside_up": "less_than_sign",
        "next": "n",
        "previous": "N",
        "next_part": "right_square_bracket",
        "previous_part": "left_square_bracket",
        "hottest": "t",
        "follow": "w",
        "passes": "p",
        "jump_back": "ctrl+o,backspace",
        "jump": "semicolon",
        "search": "slash",
        # What is shown
        "open": "enter",
        "code": "o",
        "another": "a",
        "columns": "C",
        "view": "v",
        "only": "f",
        "sort": "s",
        "reverse": "S",
        "fold": "space,z",
        "fold_all": "Z",
        "uses": "u",
        "mark": "m",
        "baseline": "b",
        # What is done
        "compare": "c",
        "swap": "x",
        "first_of_two": "A",
        "second_of_two": "B",
        "recompile": "r",
        "try": "T",
        "type": "i",
        "more": "plus,equals_sign",
        "less": "minus",
        "reset": "R",
        "copy": "y",
        "edit": "e",
        "export": "ctrl+e",
        # Everywhere
        "help": "question_mark,f1",
        "commands": "colon,ctrl+p",
        "theme": "f2",
        "close": "q",
        "back": "escape",
        "quit": "ctrl+q,ctrl+c",
    }
)
"""Verb -> its keys, as Textual names them."""


def bind(
    verb: str,
    action: str,
    description: str = "",
    *,
    show: bool = True,
    priority: bool = False,
    sign: str | None = None,
) -> Binding:
    return Binding(
        KEYS[verb], action, description, show=show, priority=priority, key_display=sign, id=verb
    )


def keys_named(given: str | list[str]) -> str:
    """Keys as Textual names them, with commas between: `?` is `question_mark`."""
    names = [given] if isinstance(given, str) else given
    bindings = [Binding(name, "nothing") for name in names if name.strip(" ,")]
    return ",".join(binding.key for binding in Binding.make_bindings(bindings))


def own_bindings(node: DOMNode, keymap: Mapping[str, str]) -> Iterator[Binding]:
    """Yields the bindings that this package gave a node's classes, the most derived first.

    A key that a derived class has bound already is left out.
    """
    used_keys: set[str] = set()
    for kind in type(node).__mro__:
        if not kind.__module__.startswith("textual."):
            declared = Binding.make_bindings(
                _rebound(binding, keymap) for binding in kind.__dict__.get("BINDINGS", ())
            )
            new = [binding for binding in declared if binding.key not in used_keys]
            used_keys.update(binding.key for binding in new)
            yield from new


def _rebound(binding: BindingType, keymap: Mapping[str, str]) -> BindingType:
    if isinstance(binding, Binding) and binding.id is not None and binding.id in keymap:
        return replace(binding, key=keymap[binding.id], key_display=None)
    return binding
