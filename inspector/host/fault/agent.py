"""Finds the ROCm debug agent, and makes the environment in which a program loads it.

Options and variables: rocr-debug-agent's user guide and agent_config.cpp. HSA_ENABLE_DEBUG=1 is
asked for by the guide up to ROCm 7.0 and ignored since. AMD_COMGR_CACHE: amd_comgr's README. Caches
of device memory hide accesses beyond a block's end: the MI300X workload guide's section on memory
access faults switches them off.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from ...base.errors import KinspectError

LIBRARY = "librocm-debug-agent.so"
_NAMES = (f"{LIBRARY}.2", LIBRARY)
FAILED = 125
"""Exit status of our own failures, as `timeout` and `docker run` have it."""
_UNSAFE = re.compile(r"[\s%]")  # the agent splits its options at blanks and expands %


def library_folders(
    environ: Mapping[str, str], prefixes: Sequence[Path], root: Path
) -> Iterator[Path]:
    """Yields the folders that the library may be in, the most specific first."""
    for name in ("ROCM_PATH", "HIP_PATH"):
        if environ.get(name):
            yield Path(environ[name]) / "lib"
    for prefix in prefixes:
        # ROCm's wheels (rocm-sdk-core and friends): site-packages/_rocm_sdk_*/lib
        for packages in sorted(prefix.glob("lib/python3*/site-packages")):
            for package in sorted(packages.glob("_rocm_sdk_*")):
                yield package / "lib"
    for part in environ.get("LD_LIBRARY_PATH", "").split(os.pathsep):
        if part:
            yield Path(part)
    opt = root / "opt"
    yield opt / "rocm" / "lib"
    yield from (path / "lib" for path in sorted(opt.glob("rocm-*"), key=_version, reverse=True))
    yield opt / "rocm" / "core" / "lib"


def _version(folder: Path) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", folder.name)))


def find_agent(folders: Iterable[Path], own_path: Path | None = None) -> Path:
    """Finds the library.

    `folders`: where to look; the first folder that has it counts.

    Raises:
        KinspectError: it is in none of the folders, or not where the user says.
    """
    if own_path is not None:
        if own_path.is_file():
            return own_path
        raise KinspectError(
            f"{own_path}: no such file", f"pass the {LIBRARY}.2 of your ROCm to --agent", FAILED
        )
    searched = list(dict.fromkeys(folders))
    for folder in searched:
        for name in _NAMES:
            if (folder / name).is_file():
                return folder / name
    raise KinspectError(
        f"the ROCm debug agent ({LIBRARY}.2) was not found; looked in"
        f" {', '.join(map(str, searched))}",
        "install the package rocm-debug-agent, set ROCM_PATH or pass --agent PATH; a report made"
        " elsewhere is read by `kinspect fault import`",
        FAILED,
    )


def options(
    report: Path,
    objects: Path,
    *,
    every_wave: bool = False,
    precise: bool = False,
    every_object: bool = False,
) -> str:
    """Returns the value of ROCM_DEBUG_AGENT_OPTIONS.

    `report`: the file to write; `%p` in its name becomes the process's number in newer agents.
    `every_wave`: waves without a fault too.
    """
    arguments = [f"--output={report}", f"--save-code-objects={objects}", "--log-level=warning"]
    if every_wave:
        arguments.append("--all")
    if precise:
        arguments.append("--precise-memory")
    if every_object:
        arguments.append("--load-all-code-objects")
    return " ".join(arguments)


def needs_no_quoting(path: Path) -> bool:
    """Tells whether a path can be passed to the agent, whose options have no quoting."""
    return not _UNSAFE.search(str(path))


def environment(
    environ: Mapping[str, str],
    agent: Path,
    agent_options: str,
    triton_cache: Path,
    *,
    memory_caches: bool = False,
) -> dict[str, str]:
    """Returns the environment in which a program loads the agent.

    `agent_options`: from `options`.
    `memory_caches`: whether device memory may be handed out in parts of larger blocks.
    """
    run_environment = {
        **environ,
        "HSA_TOOLS_LIB": str(agent),
        "HSA_ENABLE_DEBUG": "1",
        "ROCM_DEBUG_AGENT_OPTIONS": agent_options,
        "TRITON_CACHE_DIR": str(triton_cache),
        "TRITON_DISABLE_LINE_INFO": "0",
        "AMD_COMGR_CACHE": "0",
    }
    if not memory_caches:
        run_environment["PYTORCH_NO_HIP_MEMORY_CACHING"] = "1"
        run_environment["HSA_DISABLE_FRAGMENT_ALLOCATOR"] = "1"
    if not needs_no_quoting(agent):  # HSA_TOOLS_LIB is a list; the loader finds a bare name
        run_environment["HSA_TOOLS_LIB"] = agent.name
        earlier_path = environ.get("LD_LIBRARY_PATH")
        run_environment["LD_LIBRARY_PATH"] = (
            f"{agent.parent}{os.pathsep + earlier_path if earlier_path else ''}"
        )
    return run_environment


def replaced_settings(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Returns the settings of the user's tools, as NAME=VALUE, that `environment` replaces."""
    return tuple(
        f"{name}={environ[name]}"
        for name in ("HSA_TOOLS_LIB", "ROCM_DEBUG_AGENT_OPTIONS")
        if environ.get(name)
    )
