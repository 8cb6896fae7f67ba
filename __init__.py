"""kinspect: what the compiler made of a Triton or HIP kernel on AMD GPUs, and why it is slow.

>>> import kinspect
>>> found = kinspect.analyze("kernel.s", arch="gfx942")           # doctest: +SKIP
>>> found.kernel["vgpr_count"], found.kernel.findings             # doctest: +SKIP

The command line is `kinspect`. The names below are stable: within a major version they keep their
meaning. `kinspect.inspector` holds what it is made of, room by room (CONTRIBUTING.md says what each
is for), and may change at any time.
"""

import sys


def _is_run() -> bool:
    """Whether Python was asked for `-m kinspect`, or for a part of it."""
    words = iter(sys.orig_argv[1:])
    for word in words:
        if word[:1] != "-" or word[:2] == "--":
            return False
        for place, letter in enumerate(word[1:], 2):
            if letter == "m":
                return (word[place:] or next(words, "")).partition(".")[0] == __name__
            if letter == "c":
                return False
            if letter in "WX":  # the value is the rest, or the next word
                if not word[place:]:
                    next(words, "")
                break
    return False


# The working folder comes first on the path of `python -m`, whose typing.py is not ours: nothing is
# imported before it is gone, `__future__` neither.
if sys.argv[:1] == ["-m"] and not getattr(sys.flags, "safe_path", False) and _is_run():
    del sys.path[0]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .inspector.api.analysing import analyze, compile, load
    from .inspector.api.comparing import diff, sweep
    from .inspector.api.executing import CodeEmulation, Emulation, emulate, emulate_code, occupancy
    from .inspector.api.jit_kernels import T
    from .inspector.api.linting import lint
    from .inspector.api.results import (
        Analysis,
        AnalyzedKernel,
        Difference,
        LintResult,
        SweepResult,
        TrialResult,
    )
    from .inspector.api.trying import try_
    from .inspector.base.errors import KinspectError

    __version__: str

_HOMES = {
    "analyze": "api.analysing",
    "compile": "api.analysing",
    "load": "api.analysing",
    "diff": "api.comparing",
    "sweep": "api.comparing",
    "emulate": "api.executing",
    "emulate_code": "api.executing",
    "occupancy": "api.executing",
    "lint": "api.linting",
    "CodeEmulation": "api.executing",
    "Emulation": "api.executing",
    "Analysis": "api.results",
    "AnalyzedKernel": "api.results",
    "Difference": "api.results",
    "LintResult": "api.results",
    "SweepResult": "api.results",
    "T": "api.jit_kernels",
    "TrialResult": "api.results",
    "try_": "api.trying",
    "KinspectError": "base.errors",
}
"""Name -> module below `kinspect.inspector`, imported when the name is first used."""

__all__ = (
    "Analysis",
    "AnalyzedKernel",
    "CodeEmulation",
    "Difference",
    "Emulation",
    "KinspectError",
    "LintResult",
    "SweepResult",
    "T",
    "TrialResult",
    "__version__",
    "analyze",
    "compile",
    "diff",
    "emulate",
    "emulate_code",
    "lint",
    "load",
    "occupancy",
    "sweep",
    "try_",
)


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name == "__version__":
        return import_module(".inspector.base.version", __name__).VERSION
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".inspector.{_HOMES[name]}", __name__), name)
    globals()[name] = value  # the next use finds it without this function
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
