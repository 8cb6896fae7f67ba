"""Says why a HIP source did not compile: the first error, what is missing, what to do."""

from __future__ import annotations

import os
import re
import shlex
from contextlib import suppress
from pathlib import Path
from typing import Final

from ...base.errors import KinspectError
from ...base.named_files import OPTION, checkout_of, file_text, is_named

_ERROR: Final = re.compile(
    r"^(?P<place>[^\n:]+:\d+:\d+|[\w+.-]+): (?:fatal )?error: (?P<text>.+)$", re.M
)
_NO_HEADER: Final = re.compile(r"'(?P<name>[^']+)' file not found")
_REFUSED: Final = re.compile(
    r"(?:cannot open file |file )'(?P<name>[^']+)'.*(?:Permission denied|not permitted)"
)
_INCLUDED: Final = re.compile(r"^\.+ (?P<path>.+)$", re.M)
_NO_TARGET: Final = re.compile(r"(unsupported|invalid|unknown).*(gfx\w+|target)")
_SPACED: Final = re.compile(r"<<\s+<|<\s+<<")
_LACKING: Final = re.compile(
    r"(?:undeclared identifier|unknown type name|no type named)"
    r" '(?P<name>(?:cuda|hip|cu[A-Z]|CU_?|__)\w+)'"
)
_NEWER_STANDARD: Final = re.compile(
    r"unknown type name '(?:concept|requires|constinit|consteval)'"
    r"|no (?:member|template|type) named"
    r" '(?:span|bit_cast|remove_cvref\w*|popcount|has_single_bit|source_location|numbers)'"
    r"|C\+\+2[03] (?:extension|feature)"
)
"""What errors name that C++ has from C++20 on; clang's own standard is C++17."""
_CHOSEN_TEXT: Final = "static assertion failed"
"""Behind it the source says what it likes, line breaks and other errors among it."""
_MOST_LOOKED_AT: Final = 20_000
"""Files and folders of a checkout among which a header is looked for."""
_PACKAGES: Final = (
    (("rocwmma/",), "rocWMMA"),
    (("ck/", "ck_tile/"), "Composable Kernel"),
    (("hipcub/", "rocprim/", "rocthrust/", "thrust/"), "rocPRIM, hipCUB or rocThrust"),
    (("rocblas/", "hipblas/", "hipblaslt/", "rocblas.h", "hipblas.h"), "rocBLAS or hipBLAS"),
    (("rccl/", "nccl.h"), "RCCL"),
    (("torch/", "ATen/", "c10/", "pybind11/"), "PyTorch"),
    (("cub/", "cuda/std/", "nv/"), "CUDA's CCCL, which hipCUB and libhipcxx replace"),
    (("cutlass/", "cute/"), "CUTLASS, which has no code for AMD GPUs"),
    (("cublas", "cusparse", "cusolver", "cudnn", "cufft", "curand", "nvml", "nvtx"), "CUDA"),
    (("mma.h", "cuda_pipeline", "cooperative_groups/memcpy_async"), "CUDA, for NVIDIA GPUs alone"),
    (("hiprand/", "rocrand/", "hipfft/", "rocfft/", "miopen/"), "ROCm's library of that name"),
    (("hip/", "hsa/", "amd_comgr/"), "ROCm's HIP (Debian: libamdhip64-dev, rocm-device-libs)"),
    (("glm/",), "GLM (Debian: libglm-dev)"),
    (("rocm_smi/", "amd_smi/"), "ROCm SMI (Debian: librocm-smi-dev)"),
    (("RAJA/", "Kokkos", "umpire/"), "the library of that name"),
    (("mpi.h",), "MPI"),
    (("gtest/", "benchmark/", "fmt/", "CLI/"), "the project's own dependencies"),
)
"""Beginnings of headers -> what brings them."""
_CPP: Final = frozenset((
    "algorithm", "array", "atomic", "cassert", "chrono", "cmath", "complex", "cstdint", "cstdio",
    "cstdlib", "cstring", "fstream", "functional", "iostream", "limits", "map", "memory", "numeric",
    "random", "sstream", "string", "tuple", "type_traits", "utility", "vector",
))  # fmt: skip


def included(stderr: str) -> list[Path]:
    """The files that the compiler says it included (`-H`), in their order."""
    return [Path(match["path"]) for match in _INCLUDED.finditer(stderr)]


def failure(source: Path, stderr: str, command: str, *, all_known: bool = True) -> KinspectError:
    """The error of a source that did not compile.

    `all_known`: whether all files are known that it read. Else errors may tell what is in one that
    it may not read: only that which ended the compile is told.
    """
    found = [*_ERROR.finditer(stderr)]
    if not all_known:
        found = [] if _CHOSEN_TEXT in stderr else [m for m in found[-1:] if _is_told(m)]
    if not found and not all_known:
        return KinspectError(f"{source}: it does not compile", f"by hand: `{command}`")
    if not found:
        said = next((line for line in reversed(stderr.splitlines()) if line.strip()), "no reason")
        return KinspectError(
            f"{source}: the compiler failed: {said[:200]}", f"by hand: `{command}`"
        )
    first = found[0]
    refused = _REFUSED.search(first["text"])
    place, text = first["place"], first["text"].strip()
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    missing = _NO_HEADER.search(text)
    if missing is not None and os.path.isabs(missing["name"]) and os.path.exists(missing["name"]):
        missing, refused = None, missing
    if refused is not None:
        return outside(source, refused["name"])
    if missing is not None:
        return KinspectError(
            f"{place}: {missing['name']} is not there{more}", _bringing(missing["name"], source)
        )
    if text == "expected expression" and _SPACED.search(_line(source, place)):
        return KinspectError(
            f"{place}: `<< <` starts a launch for NVIDIA's compiler alone{more}",
            "write `<<<` and its end in one piece, without spaces",
        )
    return KinspectError(f"{place}: {text[:300]}{more}", _hint(text, command))


def outside(source: Path, path: str) -> KinspectError:
    """The error of a source that includes what it may not read."""
    return KinspectError(
        f"{source}: it includes {path}, outside of its checkout and of -I folders",
        f"if it should: `-- -I FOLDER`, or {OPTION} FOLDER",
    )


def _is_told(error: re.Match[str]) -> bool:
    """Whether an error tells nothing of what is in a file: the driver's, or that ends a compile."""
    return ":" not in error["place"] or ": fatal error:" in error[0]


def _hint(text: str, command: str) -> str:
    if _NO_TARGET.search(text):
        return "choose another --arch, or a newer compiler with --hip-compiler"
    lacking = _LACKING.search(text)
    if lacking is not None:
        return (
            f"kinspect's own headers do not have {lacking['name']}; ROCm's may, where they are"
            f" installed; by hand: `{command}`"
        )
    if _NEWER_STANDARD.search(text):
        return f"it may need a newer C++: `-- -std=c++20`; by hand: `{command}`"
    if "use of undeclared identifier" in text or "unknown type name" in text:
        return f"the build may state it: `-- -DNAME=VALUE -include FILE`; by hand: `{command}`"
    return f"flags of the build stand behind --; by hand: `{command}`"


def _line(source: Path, place: str) -> str:
    """The line of a source at which an error is; empty where it is in another file."""
    path, number, _ = place.rsplit(":", 2) if place.count(":") > 1 else (place, "0", "0")
    if path != str(source) or not number.isdecimal():
        return ""
    with suppress(OSError, IndexError):
        return file_text(source).splitlines()[int(number) - 1]
    return ""


def _folder_of(header: str, source: Path) -> str | None:
    tail, looked = Path(header), 0
    if ".." in tail.parts or tail.is_absolute():
        return None
    for folder, names, files in os.walk(checkout_of(source.absolute().parent)):
        names[:] = sorted(name for name in names if not name.startswith("."))
        looked += len(names) + len(files)
        place = Path(folder, tail.name)
        is_it = tail.name in files and place.parts[-len(tail.parts) :] == tail.parts
        if is_it and is_named(place):
            return os.path.relpath(place.parents[len(tail.parts) - 1])
        if looked > _MOST_LOOKED_AT:
            break
    return None


def _bringing(header: str, source: Path) -> str:
    """What brings a header, and how to name its folder."""
    folder = _folder_of(header, source)
    if folder is not None:
        return f"name its folder: `-- -I {shlex.quote(folder)}`"
    flag = "name its folder: `-- -I FOLDER`"
    if header.rpartition("/")[2].startswith("config."):
        return f"the project's build writes such headers; configure it once, then {flag}"
    if header in _CPP:
        return f"it comes with the C++ library: install g++ (Debian: libstdc++-dev), or {flag}"
    for beginnings, package in _PACKAGES:
        if header.startswith(beginnings):
            return f"it comes with {package}; {flag}"
    return flag
