"""The UI's settings that last from one start to the next, in a JSON file."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from platformdirs import user_state_dir

from ..inspector.base.named_files import file_text
from ..inspector.base.writing import replacing_text

_FILE = "tui.json"


def state_file() -> Path:
    """The path of the settings file: in $KINSPECT_STATE_DIR, else in the user's state folder."""
    folder = os.environ.get("KINSPECT_STATE_DIR") or user_state_dir("kinspect")
    return Path(folder) / _FILE


@dataclass(slots=True)
class State:
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
    columns: list[str] = field(default_factory=list)
    sort: str = ""
    reverse: bool = False
    export: str = ""
    code_columns: list[str] = field(default_factory=list)
    measured_sort: str = ""
    measured_falling: bool = True

    @classmethod
    def load(cls) -> State:
        """Reads the settings file; a missing or damaged one gives the defaults."""
        try:
            content = json.loads(file_text(state_file(), 1 << 20))
        except (OSError, ValueError, RecursionError):
            return cls()
        default = cls()
        if not isinstance(content, dict):
            return default
        values = {
            state_field.name: content[state_field.name]
            for state_field in fields(cls)
            if state_field.name in content
            and _like(content[state_field.name], getattr(default, state_field.name))
        }
        return cls(**values)

    def save(self) -> None:
        """Writes the settings file atomically.

        Raises:
            OSError: it cannot be written.
        """
        path = state_file()
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing_text(path, private=True) as file:
            json.dump(asdict(self), file, indent=1)


def _like(value: Any, default: Any) -> bool:
    """Whether a value from the file has the type of the field's default; lists hold strings."""
    if isinstance(default, list):
        return isinstance(value, list) and all(isinstance(name, str) for name in value)
    return type(value) is type(default)
