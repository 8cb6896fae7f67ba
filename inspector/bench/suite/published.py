"""Figures that others published for the bundled kernels' jobs, each with its source.

They are shown beside a run on the same device only: a time on another GPU says nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from ...base.documents import own_yaml
from ...base.errors import KinspectError
from .results import PublishedFigure

FOLDER = Path(__file__).parent / "figures"
_BESIDE = frozenset({"name", "atol", "rtol", "seed", "config"})
"""Keys that do not make a case another one."""


class Published(Struct, frozen=True):
    """One figure and the case it is for.

    Args:
        case: key -> value, or list of values that mean the same; null: the key may be missing.
    """

    kernel: str  # the bundled kernel that does the same job
    device: str  # a text that the device's name must contain
    case: Mapping[str, Any]
    figure: PublishedFigure

    def is_for(self, case: Mapping[str, Any]) -> bool:
        """Tells whether a case is this one; a key that only one of them has is false or null."""
        return all(
            case.get(key) in _values(self.case.get(key))
            for key in (self.case.keys() | case.keys()) - _BESIDE
        )


def read_published(folder: Path = FOLDER) -> list[Published]:
    """Reads the figures of a folder's YAML files.

    Raises:
        KinspectError: a file is not what it should be.
    """
    import yaml

    figures: list[Published] = []
    for path in sorted(folder.glob("*.yaml")):
        try:
            figures += _of_file(own_yaml(path))
        except (yaml.YAMLError, KeyError, TypeError, AttributeError, OSError) as error:
            raise KinspectError(
                f"{path}: not a file of published figures: {type(error).__name__}: {error}",
                "install kinspect again",
            ) from None
    return figures


def figures_for(
    published: Sequence[Published], kernel: str, device: str, case: Mapping[str, Any]
) -> tuple[PublishedFigure, ...]:
    """The figures for a case of a kernel on a device of this name."""
    return tuple(
        entry.figure
        for entry in published
        if entry.kernel == kernel and entry.device.lower() in device.lower() and entry.is_for(case)
    )


def _of_file(data: Any) -> Iterator[Published]:
    for table in data["tables"]:
        for row in table["rows"]:
            us, tflops = row.get("us"), row.get("tflops")
            figure = PublishedFigure(
                None if us is None else float(us),
                None if tflops is None else float(tflops),
                str(row.get("label") or table["label"]),
                str(table["source"]),
            )
            case = {**table.get("common", {}), **dict(zip(table["keys"], row["case"], strict=True))}
            yield Published(data["kernel"], data["device"], case, figure)


def _values(stated: Any) -> tuple[Any, ...]:
    """The values of a case that match a stated one; null, false and a missing key are the same."""
    values = tuple(stated) if isinstance(stated, list) else (stated,)
    return (*values, None, False) if any(v is None or v is False for v in values) else values
