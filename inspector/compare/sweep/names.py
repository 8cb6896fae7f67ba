"""Whether the names of a sweep mean anything: options of the backend, parameters of a kernel."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from difflib import get_close_matches

from ...capture.axes import BACKEND_ONLY, Axis
from ...errors import KinspectError

MOST_NAMED = 24
"""How many names a hint lists before it breaks off."""


def unresolved(
    axes: Iterable[Axis], options: Collection[str], parameters: Collection[str]
) -> list[str]:
    """The names that are neither a parameter nor an option that can be swept."""
    return [
        axis.name
        for axis in axes
        if axis.name not in parameters and not (axis.name in BACKEND_ONLY and axis.name in options)
    ]


def refuse(
    name: str, options: Collection[str], parameters: Sequence[str], where: str
) -> KinspectError:
    """Why a name cannot be swept, and what might have been meant.

    Args:
        name: the axis.
        options: all options of this Triton's backend.
        parameters: the parameters of the kernels that were found.
        where: the targets.
    """
    if name in options:
        return KinspectError(
            f"--set {name}: Triton's front end reads this option, so that one TTIR does not serve"
            " all its values",
            "sweep it by launches of your own that set it",
        )
    known_names = [*parameters, *sorted(BACKEND_ONLY.intersection(options))]
    near = get_close_matches(name, known_names, n=2)
    suggestion = f" (did you mean {' or '.join(near)}?)" if near else ""
    listed = ", ".join(known_names[:MOST_NAMED]) + (", …" if len(known_names) > MOST_NAMED else "")
    kinds = "a parameter of a kernel nor an option" if parameters else "an option"
    neither = "neither " if parameters else "not "
    return KinspectError(
        f"--set {name}: {neither}{kinds} of this Triton's AMD backend in {where}{suggestion}",
        f"known: {listed}",
    )
