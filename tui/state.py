"""What is kept from one start to the next: theme, columns, order, the last folder of an export."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from platformdirs import user_state_dir

from ..inspector.writing import replacing_text

_FILE = "tui.json"


def state_file() -> Path:
    """Where it is kept: $KINSPECT_STATE_DIR, else the user's folder for such things."""
    folder = os.environ.get("KINSPECT_STATE_DIR") or user_state_dir("kinspect")
    return Path(folder) / _FILE


@dataclass(slots=True)
class State:
    """The settings of the terminal UI; a field that cannot be read has its default."""

    theme: str = ""
    columns: list[str] = field(default_factory=list)
    sort: str = ""
    reverse: bool = False
    panes: list[str] = field(default_factory=list)
    export: str = ""

    @classmethod
    def load(cls) -> State:
        """Reads what was kept; whatever is wrong with the file, the UI starts."""
        try:
            content = json.loads(state_file().read_text("utf-8"))
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
        """Writes it, as a whole or not at all.

        Raises:
            OSError: it cannot be written.
        """
        path = state_file()
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing_text(path, private=True) as file:
            json.dump(asdict(self), file, indent=1)


def _like(value: Any, default: Any) -> bool:
    """Whether a value read is of the kind that the field has; lists are of names."""
    if isinstance(default, list):
        return isinstance(value, list) and all(isinstance(name, str) for name in value)
    return type(value) is type(default)
