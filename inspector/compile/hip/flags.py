"""Which of the compiler's flags are taken: those that shape the code, none that run or write."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from ...base.documents import json_value
from ...base.errors import KinspectError
from ...base.named_files import named_text

DATABASE: Final = "compile_commands.json"
_MOST_DATABASE: Final = 16 << 20

_REFUSED: Final = (
    *("@", "-fplugin", "-fpass-plugin", "-load", "--load", "-plugin", "-wrapper", "--config"),
    *("-B", "--prefix", "-specs", "--specs", "-fuse-ld", "-ccc-", "-cc1", "-Wl,", "-Xlinker"),
    *("-Wa,", "-Xassembler", "-Wp,", "-Xpreprocessor", "-o", "-save-temps", "--save-temps"),
    *("-dump", "-MF", "-MJ", "-MD", "-MMD", "-M", "-ftime-trace", "-fmodule", "-fprebuilt"),
    *("-fprofile", "-fcrash-diagnostics", "-gen-reproducer", "--analyze", "-foptimization-record"),
    *("-fsave-optimization-record", "-fdiagnostics-add-output", "-serialize-diagnostics"),
    *("--serialize-diagnostics", "-index", "-dependency", "-emit", "-E", "-fsyntax-only", "-c"),
    *("--precompile", "-x", "-###", "-v", "-print", "--print", "-help", "--help", "-stdlib="),
    *("-Xarch_", "-Xoffload", "-fembed", "--embed-dir", "-fproc-stat", "-ivfsoverlay"),
    *("--sysroot", "-isysroot", "-resource-dir", "-working-dir"),
)
"""Beginnings of what is refused: what runs or loads something, writes or reads other files, or asks
for something else than assembly."""
_OURS: Final = {"--offload-arch": "--arch", "--cuda-gpu-arch": "--arch", "-S": ""}
_WITH_VALUE: Final = ("-I", "-D", "-U", "-include", "-isystem", "-iquote", "-idirafter")
_OF_INTERNALS: Final = ("-Xclang", "-mllvm")
_TAKEN_OF_INTERNALS: Final = (
    "-f",
    "-m",
    "-D",
    "-U",
    "-W",
    "-O",
    "-amdgpu-",
    "-target-feature",
    "+",
)
_FILES_OF_INTERNALS: Final = ("output", "file", "load", "plugin", "path", "dump", "report")
_FOLDERS: Final = ("-I", "-isystem", "-iquote", "-idirafter")
_FROM_DATABASE: Final = (
    *("-I", "-D", "-U", "-isystem", "-iquote", "-idirafter", "-include", "-std=", "-O"),
    *("-ffast-math", "-fno-fast-math", "-fgpu-rdc", "-fno-gpu-rdc", "-ffp-contract=", "-munsafe-"),
    *("-fno-strict-aliasing", "-fgpu-flush-denormals", "-fno-exceptions", "-fno-rtti", "-funroll"),
    *("-fno-math-errno", "-fassociative-math", "-freciprocal-math", "-mcumode", "-mno-cumode"),
    *("-mwavefrontsize64", "-mno-wavefrontsize64", "-fslp-vectorize", "-fno-slp-vectorize"),
)
"""Beginnings of what a file beside the source may say."""


def checked(flags: Sequence[str]) -> tuple[str, ...]:
    """The flags that the user typed.

    Raises:
        KinspectError: one of them may run or write something, or says what kinspect says itself.
    """
    follows = ""
    for flag in flags:
        if follows in _OF_INTERNALS:
            is_file = any(part in flag for part in _FILES_OF_INTERNALS)
            if is_file or not flag.startswith(_TAKEN_OF_INTERNALS):
                raise _refused(f"{follows} {flag}")
            follows = ""
        elif follows:
            follows = ""
        elif flag in _WITH_VALUE or flag in _OF_INTERNALS:
            follows = flag
        else:
            _check(flag)
    if follows:
        raise KinspectError(f"{follows}: its value is missing", "put it behind it")
    return tuple(flags)


def _check(flag: str) -> None:
    for name, option in _OURS.items():
        if flag.partition("=")[0] == name:
            hint = f"say {option} before the --" if option else "leave it out: it is what is done"
            raise KinspectError(f"{flag}: kinspect states it itself", hint)
    if not flag.startswith("-") and not flag.startswith("@"):
        raise KinspectError(
            f"{flag}: no flag of the compiler", "sources stand before the --, flags behind it"
        )
    if flag.startswith("-include-pch") or (
        flag.startswith(_REFUSED) and not flag.startswith(_WITH_VALUE)
    ):
        raise _refused(flag)


def _refused(flag: str) -> KinspectError:
    return KinspectError(
        f"{flag}: not taken, as it runs, loads, reads or writes something else than the source",
        "compile by hand with it, and name the assembly (.s)",
    )


def folders_of(flags: Sequence[str]) -> list[Path]:
    """The folders, and files, that the user's own flags name to include from."""
    named = []
    for flag, value in zip(flags, [*flags[1:], ""], strict=False):
        for name in (*_FOLDERS, "-include"):
            if flag == name:
                named.append(Path(value))
            elif flag.startswith(name) and name not in ("-include",) and len(flag) > len(name):
                named.append(Path(flag[len(name) :]))
    return named


def database_flags(source: Path) -> tuple[str, ...]:
    """The flags that the nearest `compile_commands.json` states for a source, of those on a list.

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
    try:
        entries = json_value(text, name)
    except KinspectError:
        return
    wanted = os.path.realpath(source)
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and isinstance(entry.get("file"), str):
            folder = entry.get("directory")
            base = folder if isinstance(folder, str) else os.path.dirname(name)
            if os.path.realpath(os.path.join(base, entry["file"])) == wanted:
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
    """The words that are on the list, their folders made absolute."""
    pending = ""
    for word in words[1:]:
        if pending:
            yield from (pending, _absolute(pending, word, base))
            pending = ""
        elif word in _WITH_VALUE:
            pending = word
        elif word.startswith(_FROM_DATABASE):
            folder = next((f for f in _FOLDERS if word.startswith(f)), None)
            yield folder + _absolute(folder, word[len(folder) :], base) if folder else word


def _absolute(name: str, value: str, base: str) -> str:
    is_path = name in (*_FOLDERS, "-include")
    return os.path.normpath(os.path.join(base, value)) if is_path else value
