"""Several things that are wrong at once, told together so that one run shows all there is to do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..errors import KinspectError


class FaultsError(KinspectError):
    """What is wrong, one entry each; the command line prints a line for each of them."""

    def __init__(self, faults: Iterable[str], hint: str) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(self.faults), hint)

    def __reduce__(self) -> Any:
        return (FaultsError, (self.faults, self.hint))
