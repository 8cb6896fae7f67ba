"""The UI's settings that last from one start to the next, in a JSON file."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, fields
from platformdirs import user_state_dir

from ..inspector.base.named_files import file_text
from ..inspector.base.writing import replacing_text

_FILE = "tui.json"


def state_file() -> Path:
    """The path of the settings file: in $KINSPECT_STATE_DIR, else in the user's state folder."""
    folder = os.environ.get("KINSPECT_STATE_DIR") or user_state_dir("kinspect")
    return Path(folder) / _FILE


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
