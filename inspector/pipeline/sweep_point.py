"""Opens one point of a sweep: values of parameters and options in place of a target's own.

Parameters of kernels go through the front end, as in a sweep (`CaptureOptions.axes`); options that
only the backend reads are set on the captured variants.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ..capture.sweep_axes import Axis, backend_axes, check_varied, refused_name, unresolved_names
from ..model import Variant
from .jobs import Request

if TYPE_CHECKING:
    from ..compile.pool import Compiler

ALREADY_COMPILED = (
    "it is compiled already, so that --set cannot change it",
    "name the .py file or the .ttir it was made from",
)
"""Message and hint for a target that is only read."""


def capture_at_point(request: Request) -> Request:
    """The request with which kernels are captured at its point.

    Of an autotuned launch whose parameters the point sets that is the first configuration, with the
    point's values in place of its own, as a sweep without --autotune has it.
    """
    axes = {axis.name: axis.values for axis in request.point}
    return replace(request, capture=replace(request.capture, axes=axes))


def at_point(variant: Variant, point: Sequence[Axis], file: str) -> Variant:
    """A captured variant with the point's backend options.

    Raises:
        KinspectError: the point names a parameter that the capture could not set.
    """
    check_varied(point, variant, file)
    options = {axis.name: axis.values[0] for axis in backend_axes(point, variant)}
    return replace(variant, options={**variant.options, **options}) if options else variant


class PointNames:
    """Which names of a point are known, as more and more kernels are."""

    def __init__(self, point: Sequence[Axis], options: Collection[str]) -> None:
        self._point = point
        self._options = options
        self._parameters: dict[str, None] = {}

    def add(self, variant: Variant) -> None:
        """Takes the names of a kernel's parameters."""
        self._parameters.update(dict.fromkeys(variant.signature))

    @property
    def all_known(self) -> bool:
        """Whether every name is an option or a parameter of a kernel that was seen."""
        return not self._unknown()

    def check(self, files: Iterable[str]) -> None:
        """Refuses an unknown name once all kernels are known.

        Raises:
            KinspectError: there is one, and kernels were seen; else their errors say why not.
        """
        unknown = self._unknown()
        if unknown and self._parameters:
            where = ", ".join(dict.fromkeys(files))
            raise refused_name(unknown[0], self._options, list(self._parameters), where)

    def _unknown(self) -> list[str]:
        return unresolved_names(self._point, self._options, self._parameters.keys())


def check_names(variants: Sequence[Variant], request: Request, compiler: Compiler) -> None:
    """Refuses a point of which a name is neither an option nor a parameter of these kernels.

    Raises:
        KinspectError: there is one.
    """
    if request.point:
        names = PointNames(request.point, compiler.toolchain().options)
        for variant in variants:
            names.add(variant)
        names.check(request.targets)
