"""Which of the compiler's flags are taken: those that shape the code, from a list.

Whatever else a compiler knows may run, load, read or write something; new ones come every year.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Container, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from ...base.documents import json_value
from ...base.errors import KinspectError
from ...base.named_files import named_text

DATABASE: Final = "compile_commands.json"
_MOST_DATABASE: Final = 4 << 20
_FOLDERS: Final = ("-isystem", "-iquote", "-idirafter", "-I")
_WITH_VALUE: Final = (*_FOLDERS, "-include", "-D", "-U")
_TAKEN: Final = re.compile(
    r"-std=[\w+]+|-O(?:[0-3sz]|fast)?|-g[0-3]?|-gline-tables-only|-w|-W(?:no-)?[a-z][\w+=-]*|-pthread"
    r"|--gpu-max-threads-per-block=\d+|-m(?:no-)?(?:cumode|wavefrontsize64|unsafe-fp-atomics)"
    r"|-f(?:no-)?(?:fast-math|finite-math-only|math-errno|associative-math|reciprocal-math"
    r"|signed-zeros|trapping-math|approx-func|honor-nans|honor-infinities|gpu-rdc|exceptions|rtti"
    r"|gpu-flush-denormals-to-zero|cuda-flush-denormals-to-zero|gpu-approx-transcendentals"
    r"|hip-fp32-correctly-rounded-divide-sqrt|hip-new-launch-api|gpu-allow-device-init"
    r"|strict-aliasing|unroll-loops|vectorize|slp-vectorize|inline-functions|inline|wrapv|common"
    r"|omit-frame-pointer|delete-null-pointer-checks|threadsafe-statics|ms-extensions|char8_t"
    r"|signed-char|unsigned-char|data-sections|function-sections|openmp|unsafe-math-optimizations"
    r"|visibility-inlines-hidden|coroutines|strict-overflow|hip-emit-relocatable)"
    r"|-f(?:PIC|pic|PIE|pie)|-f(?:fp-contract|denormal-fp-math|denormal-fp-math-f32|visibility"
    r"|gpu-default-stream|template-depth|constexpr-steps|constexpr-depth|bracket-depth)=[\w,-]+"
)
"""Flags as whole words."""
_FEATURES: Final = r"[+-](?:wavefrontsize(?:32|64)|xnack|sramecc|cumode|tgsplit)"
_INTERNAL: Final = {
    "-mllvm": re.compile(
        r"-(?!\S*(?:file|output|path|load|dump|report|stats))"
        r"(?:amdgpu|unroll|inline|enable|disable|misched|slp|vectorize|greedy|regalloc)[\w-]*(?:=[\w.-]+)?"
    ),
    "-Xclang": re.compile(rf"{_TAKEN.pattern}|-target-feature|{_FEATURES}"),
}
_OURS: Final = {"--offload-arch": "--arch", "--cuda-gpu-arch": "--arch", "-S": "", "-c": ""}


def checked(flags: Sequence[str]) -> tuple[str, ...]:
    """The flags that the user typed, folders made absolute.

    Raises:
        KinspectError: one of them is not on the list.
    """
    taken: list[str] = []
    for name, value in _with_values(flags, _INTERNAL):
        if value is None and not _TAKEN.fullmatch(name):
            raise _error(name)
        if value == "":
            raise KinspectError(f"{name}: its value is missing", "put it behind it")
        if name in _INTERNAL and not _INTERNAL[name].fullmatch(value or ""):
            raise _refused(f"{name} {value}")
        taken += [name] if value is None else _joined(name, value, os.getcwd())
    return tuple(taken)


def _with_values(
    words: Sequence[str], internal: Container[str]
) -> Iterator[tuple[str, str | None]]:
    """Each flag with its value, behind it or in it; None of those that have none."""
    rest = list(words)
    while rest:
        word = rest.pop(0)
        name = _with_value(word) or (word if word in internal else None)
        if name is None:
            yield word, None
        else:
            yield name, word[len(name) :] or (rest.pop(0) if rest else "")


def _with_value(flag: str) -> str | None:
    """The name of a flag that has a value, behind it or in it; None for others."""
    if flag.startswith("-include"):
        return flag if flag == "-include" else None
    return next((name for name in _WITH_VALUE if flag.startswith(name)), None)


def _error(flag: str) -> KinspectError:
    for name, option in _OURS.items():
        if flag.partition("=")[0] == name:
            hint = f"say {option} before the --" if option else "leave it out: it is what is done"
            return KinspectError(f"{flag}: kinspect states it itself", hint)
    if not flag.startswith(("-", "@")):
        return KinspectError(
            f"{flag}: no flag of the compiler", "sources stand before the --, flags behind it"
        )
    return _refused(flag)


def _refused(flag: str) -> KinspectError:
    return KinspectError(
        f"{flag}: not among the flags that are taken: -D, -I, -include, -std, -O, -g, -W and those"
        " of arithmetic and optimisation",
        "compile by hand with it, and name the assembly (.s)",
    )


def _joined(name: str, value: str, base: str) -> list[str]:
    """A flag and its value as clang cannot take for anything else: no word begins with @."""
    if name in ("-D", "-U"):
        return [name + value]
    if name in _FOLDERS:
        return [name + os.path.normpath(os.path.join(base, value))]
    if name == "-include":
        place = os.path.normpath(os.path.join(base, value))
        # By the compiler proper: the driver would load a precompiled header that lies beside it.
        header = place if os.path.exists(place) else f"./{value}" if value[:1] == "@" else value
        return ["-Xclang", "-include", "-Xclang", header]
    return [name, value]


def folders_of(flags: Sequence[str]) -> list[Path]:
    """The folders, and files, to include from, of flags as `checked` returns them."""
    named = []
    for flag, former in zip(flags, ["", *flags], strict=False):
        name = next((name for name in _FOLDERS if flag.startswith(name)), None)
        if name is not None:
            named.append(Path(flag[len(name) :]))
        elif former == "-Xclang" and os.path.isabs(flag):
            named.append(Path(flag))
    return named


def database_flags(source: Path) -> tuple[str, ...]:
    """The flags that the nearest `compile_commands.json` states for a source, of those on the list.

    It is data of whoever wrote it: it chooses no program, and what it includes must lie where data
    may name files.
    """
    for folder in source.absolute().parents:
        for database in (folder / DATABASE, folder / "build" / DATABASE):
            text = named_text(database, _MOST_DATABASE) if database.is_file() else None
            if text is not None:
                return tuple(_stated_for(source, text, str(database)))
    return ()


def _stated_for(source: Path, text: str, name: str) -> Iterator[str]:
    if source.name not in text:
        return
    try:
        entries = json_value(text, name)
    except KinspectError:
        return
    wanted = os.path.realpath(source)
    for entry in entries if isinstance(entries, list) else ():
        file = entry.get("file") if isinstance(entry, dict) else None
        if isinstance(file, str) and os.path.basename(file) == source.name:
            folder = entry.get("directory")
            base = folder if isinstance(folder, str) else os.path.dirname(name)
            if os.path.realpath(os.path.join(base, file)) == wanted:
                yield from _listed(_words(entry), base)
                return


def _words(entry: dict[str, Any]) -> list[str]:
    words = entry.get("arguments")
    if isinstance(words, list):
        return [str(word) for word in words]
    try:
        return shlex.split(str(entry.get("command", "")))
    except ValueError:
        return []


def _listed(words: Sequence[str], base: str) -> Iterator[str]:
    """The words that are on the list; others go, and what follows them stands for itself."""
    for name, value in _with_values(words[1:], ()):
        if value is None:
            yield from [name] if _TAKEN.fullmatch(name) else ()
        elif value:
            yield from _joined(name, value, base)
