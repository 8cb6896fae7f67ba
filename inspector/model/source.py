"""Positions in the user's source."""

from __future__ import annotations

from functools import cache

from msgspec import Struct

LIBRARY_CODE = (
    "/triton/language/",
    "/triton/experimental/",
    "/include/c++/",
    "/lib/clang/",
    # ROCm's, as installed: HIP, rocWMMA, Composable Kernel, hipCUB, rocPRIM, rocThrust, hipRAND.
    "/include/hip/",
    "/include/rocwmma/",
    "/include/ck/",
    "/include/ck_tile/",
    "/include/hipcub/",
    "/include/rocprim/",
    "/include/thrust/",
    "/include/rocrand/",
    "/include/hiprand/",
    # HipKittens and ThunderKittens.
    "/include/ops/warp/",
    "/include/ops/group/",
    "/include/types/global/",
    "/include/types/register/",
    "/include/types/shared/",
)
"""Parts of paths that mark library code, which users read but do not write."""


class SourceLoc(Struct, frozen=True, gc=False, omit_defaults=True, cache_hash=True):
    """A position in the user's source; `inlined_at` is the call site it was inlined into."""

    file: str
    line: int
    column: int | None = None
    inlined_at: SourceLoc | None = None

    @property
    def outermost(self) -> SourceLoc:
        """The position in the kernel itself: the end of the inlined-at chain."""
        loc = self
        while loc.inlined_at is not None:
            loc = loc.inlined_at
        return loc

    @property
    def in_user_code(self) -> SourceLoc:
        """The innermost position outside of the libraries that kernels are written with.

        That is the line which the user wrote and can change: `tl.max(x)` rather than the line of
        Triton's `max`. The outermost position where all are in libraries.
        """
        loc: SourceLoc | None = self
        while loc is not None and loc.in_library:
            loc = loc.inlined_at
        return loc if loc is not None else self.outermost

    @property
    def in_library(self) -> bool:
        """Whether this very position is in the code of such a library."""
        return _is_library(self.file)


@cache
def _is_library(file: str) -> bool:
    return any(part in file for part in LIBRARY_CODE)
