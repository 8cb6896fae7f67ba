"""One key table: a key has one meaning on all pages, in all widgets and dialogues."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

import kinspect.tui as tui
import pytest
from kinspect.tui.key_table import KEYS, bind
from textual.binding import Binding
from textual.dom import DOMNode
from textual.screen import ModalScreen

_IN_DIALOGUES = frozenset({"close", "dismiss", "cancel", "leave"})
"""What any key may do in a dialogue that shows one thing: close it."""


def _classes() -> Iterator[type[DOMNode]]:
    """All of the interface's classes that declare keys."""
    for module in pkgutil.walk_packages(tui.__path__, f"{tui.__name__}."):
        for value in vars(importlib.import_module(module.name)).values():
            own = isinstance(value, type) and value.__module__ == module.name
            if own and issubclass(value, DOMNode) and "BINDINGS" in value.__dict__:
                yield value


def _letters() -> Iterator[tuple[type[DOMNode], Binding]]:
    """The bindings of single letters and signs, which users have to remember."""
    for cls in _classes():
        for binding in Binding.make_bindings(cls.__dict__["BINDINGS"]):
            if len(binding.key) == 1 or (binding.key.isidentifier() and "_" in binding.key):
                yield cls, binding


def test_no_key_stands_for_two_verbs() -> None:
    keys = [key for verb in KEYS.values() for key in verb.split(",")]
    assert len(keys) == len(set(keys))


def test_letters_come_from_the_table() -> None:
    verb_of = {key: verb for verb, keys in KEYS.items() for key in keys.split(",")}
    seen = set()
    for cls, binding in _letters():
        if binding.key.isdigit():
            continue
        if issubclass(cls, ModalScreen) and binding.action.partition("(")[0] in _IN_DIALOGUES:
            continue
        seen.add(binding.key)
        where = f"{cls.__name__}: {binding.key} {binding.description}"
        assert binding.key in verb_of, where
        if binding.id is None:  # moves in a dialogue or list that is no table or text
            assert verb_of[binding.key] in (
                *("down", "up", "left", "right", "page_down", "page_up", "first", "last"),
                *("type", "fold", "open", "close", "help"),
            ), where
        else:
            assert binding.id == verb_of[binding.key], where
    assert len(seen) > 30


def test_a_binding_has_the_keys_of_its_verb() -> None:
    (*bindings,) = Binding.make_bindings([bind("down", "move(1)", "Down", show=False)])
    assert [(binding.key, binding.action, binding.id) for binding in bindings] == [
        ("down", "move(1)", "down"),
        ("j", "move(1)", "down"),
    ]
    with pytest.raises(KeyError):
        bind("no such verb", "nothing")
