"""The entry point: `kinspect COMMAND`, and `kinspect TARGET` for `kinspect analyze TARGET`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from ..base.blas_threads import own_process
from ..base.version import VERSION


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit status and prints errors."""
    args = list(sys.argv[1:] if argv is None else argv)
    if args == ["--version"] and sys.stdout is not None:
        sys.stdout.write(f"kinspect {VERSION}\n")
        return 0
    import gc

    # An analysis makes many small values and no cycles; collecting at the default rate takes a
    # tenth of a short run's time and frees nothing.
    gc.set_threshold(500_000, 50, 50)
    try:
        from .group import run

        return run(args)
    except KeyboardInterrupt:  # Ctrl-C while modules were still being loaded
        return 130


def console_script() -> None:
    """The `kinspect` command."""
    own_process()
    sys.exit(main())
