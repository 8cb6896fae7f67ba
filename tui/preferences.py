"""The user's own keys and colours: `tui.toml` in the folder of their settings.

The UI's settings that last from one start to the next, in a JSON file.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, fields
from platformdirs import user_config_dir, user_state_dir
from textual.color import Color, ColorParseError
from textual.theme import BUILTIN_THEMES, Theme

from ..inspector.base.documents import toml_value
from ..inspector.base.errors import FaultsError, KinspectError
from ..inspector.base.named_files import file_text
from ..inspector.base.writing import replacing_text
from .key_table import KEYS, keys_named
from .page_table import PAGES
from .themes import THEMES

_FILE = "tui.toml"
_MOST_BYTES = 1 << 20
_WRITE = "as docs/guides/terminal.md says, or remove the file"
_COLOURS = frozenset(
    (
        *("primary", "secondary", "accent", "warning", "error", "success"),
        *("foreground", "background", "surface", "panel", "boost"),
    )
)


class _Document(Struct, frozen=True, forbid_unknown_fields=True):
    """The file."""

    theme: str | None = None
    keys: dict[str, str | list[str]] = {}
    themes: dict[str, dict[str, str | bool]] = {}


class Preferences(Struct, frozen=True):
    """What the user wants otherwise.

    Args:
        theme: the name of the theme to begin with; None for the one of the last time.
        keys: verb of `KEYS` -> its keys, as Textual names them, with commas between.
        themes: name -> colours, and `dark`.
    """

    theme: str | None = None
    keys: Mapping[str, str] = {}
    themes: Mapping[str, Mapping[str, Any]] = {}

    def made_themes(self) -> list[Theme]:
        return [Theme(name=name, **colours) for name, colours in self.themes.items()]


def file() -> Path:
    """The path of the file: in $KINSPECT_CONFIG_DIR, else in the user's folder of settings."""
    folder = os.environ.get("KINSPECT_CONFIG_DIR") or user_config_dir("kinspect")
    return Path(folder) / _FILE


def load() -> Preferences:
    """Reads the file; without one there are none.

    Raises:
        KinspectError: it cannot be read, or has faults: all of them, one a line.
    """
    path = file()
    if not path.is_file():
        return Preferences()
    try:
        text = file_text(path, _MOST_BYTES)
        document = msgspec.convert(toml_value(text, str(path)), _Document)
    except OSError as error:
        raise KinspectError(f"{path}: {error.strerror or error}", "check permissions") from None
    except msgspec.ValidationError as error:
        raise KinspectError(f"{path}: {error}", _WRITE) from None
    keys = {verb: keys_named(given) for verb, given in document.keys.items()}
    faults = [*_faults_of_keys(keys), *_faults_of_themes(document)]
    if faults:
        raise FaultsError([f"{path}: {fault}" for fault in faults], _WRITE)
    return Preferences(document.theme, keys, document.themes)


def _faults_of_keys(keys: Mapping[str, str]) -> Iterator[str]:
    for verb in keys.keys() - KEYS.keys():
        yield f"keys.{verb}: no such action; {_near(verb, KEYS)}"
    for verb, named in keys.items():
        if not all(named.split(",")):
            yield f"keys.{verb}: it names no key"
    final = {**KEYS, **{verb: named for verb, named in keys.items() if verb in KEYS}}
    used = Counter(key for named in final.values() for key in named.split(","))
    used.update(spec.key for spec in PAGES.values() if spec.key)
    used.update(("tab", "shift+tab"))
    for key, times in used.items():
        if times > 1 and key:
            verbs = [verb for verb, named in final.items() if key in named.split(",")]
            yield f"keys: {key} has {times} meanings ({', '.join(verbs) or 'a page'})"


def _faults_of_themes(document: _Document) -> Iterator[str]:
    known = {*BUILTIN_THEMES, *(theme.name for theme in THEMES), *document.themes}
    if document.theme is not None and document.theme not in known:
        yield f"theme: {document.theme!r} is none; {_near(document.theme, known)}"
    for name, colours in document.themes.items():
        if "primary" not in colours:
            yield f"themes.{name}: primary is missing"
        for colour, value in colours.items():
            if colour == "dark":
                if not isinstance(value, bool):
                    yield f"themes.{name}.dark: true or false"
            elif colour not in _COLOURS:
                yield f"themes.{name}.{colour}: no such colour; {_near(colour, _COLOURS)}"
            else:
                try:
                    Color.parse(str(value))
                except ColorParseError:
                    yield f"themes.{name}.{colour}: {value!r} is no colour, such as #6cb6ff"


def _near(word: str, known: Iterable[str]) -> str:
    near = get_close_matches(word, known, n=1)
    return f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(known))}"


_STATE_FILE = "tui.json"


def state_file() -> Path:
    """The path of the settings file: in $KINSPECT_STATE_DIR, else in the user's state folder."""
    folder = os.environ.get("KINSPECT_STATE_DIR") or user_state_dir("kinspect")
    return Path(folder) / _STATE_FILE


class State(Struct):
    """The settings of the terminal UI; a field that cannot be read has its default.

    Attributes:
        theme: the theme's name; "" for the first.
        columns: names of the shown columns of the kernels' table; empty: the default ones.
        sort: name of the column that the kernels are sorted by; "" for the run's order.
        measured_sort: name of the column that measured kernels are sorted by; "" for their time.
        measured_falling: whether the largest comes first.
        code_columns: names of the columns beside code, the first of which says which lines are hot;
            empty: the default ones.
    """

    theme: str = ""
    columns: list[str] = []
    sort: str = ""
    reverse: bool = False
    export: str = ""
    code_columns: list[str] = []
    measured_sort: str = ""
    measured_falling: bool = True

    @classmethod
    def load(cls) -> State:
        """Reads the settings file; a missing or damaged one gives the defaults."""
        state = cls()
        try:
            content = json.loads(file_text(state_file(), 1 << 20))
        except (OSError, ValueError, RecursionError):
            return state
        for setting in fields(cls) if isinstance(content, dict) else ():
            with suppress(KeyError, msgspec.ValidationError):
                value = msgspec.convert(content[setting.name], setting.type)
                setattr(state, setting.name, value)
        return state

    def save(self) -> None:
        """Writes the settings file atomically.

        Raises:
            OSError: it cannot be written.
        """
        path = state_file()
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing_text(path, private=True) as file:
            json.dump(asdict(self), file, indent=1)
