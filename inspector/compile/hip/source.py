"""Compiles a HIP source to assembly, or finds that in the store."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from ...base.errors import KinspectError
from ...base.lifetimes import run_to_end
from ...base.limits import COMPILE_MEMORY
from ...base.named_files import OPTION, allow, file_bytes, is_named, own_cache
from ...base.programs import absolute_folders
from ...base.status import doing
from ...model import Artifact
from ..store import Store, StoreEntry
from .compilers import HipCompiler, device_libraries, find_compiler, why_unusable
from .diagnosis import failure, included
from .flags import checked, database_flags, folders_of
from .names import names_of
from .options import HipOptions

FORMAT: Final = 2
"""Part of every key: raise it when the same inputs come to mean other assembly."""
HEADERS: Final = Path(__file__).parent / "headers"
MOST_BYTES: Final = 64 << 20
"""Of a source."""
_CUDA: Final = frozenset((".cu", ".cuh"))
"""Suffixes of sources that use CUDA's names without including them."""
_CODE: Final = "kernel.s"
_MAIN: Final = "instances.hip"
_DEPENDENCIES: Final = "dependencies"
_INDEX: Final = "index.json"
_MOST_KEPT: Final = 16
"""Sets of headers that one source was compiled with which are remembered."""
_DROPPED: Final = (
    *("CCC_OVERRIDE_OPTIONS", "CCC_ADD_ARGS", "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH"),
    *("OBJC_INCLUDE_PATH", "COMPILER_PATH", "GCC_EXEC_PREFIX", "LD_PRELOAD", "CC_LOG_DIAGNOSTICS"),
    *("HIPCC_COMPILE_FLAGS_APPEND", "HIPCC_LINK_FLAGS_APPEND", "CC_PRINT_OPTIONS"),
    *("CC_PRINT_HEADERS", "CC_PRINT_PROC_STAT", "RC_DEBUG_OPTIONS", "CLANG_CRASH_DIAGNOSTICS_DIR"),
)
"""Variables by which a compiler takes other flags, or writes other files."""
_SYSTEM: Final = ("/usr/include", "/usr/lib", "/usr/lib64", "/usr/local/include", "/opt/rocm")
_GLOBAL: Final = b"__global__"
_NAME: Final = re.compile(r"(?P<name>\w{1,200})\s{0,9}\(")
_NEAR: Final = 400
"""Characters before and behind `__global__` in which its template and its name stand."""
_KERNEL: Final = re.compile(r"^\s*\.amdhsa_kernel\s+(\S+)", re.M)
_UNDEFINED: Final = re.compile(r"(?P<name>[\w.$]+)@(?:gotpcrel32|rel32)@lo")


class HipCode(Struct, frozen=True):
    """The assembly of a HIP source.

    Args:
        artifact: the assembly's file.
        names: symbol -> name of each kernel, as its author writes it.
        from_store: whether it was compiled before.
        notes: what it lacks.
    """

    artifact: Artifact
    names: Mapping[str, str]
    from_store: bool
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, entry: StoreEntry, *, from_store: bool) -> HipCode:
        """The code of an entry of the store."""
        facts = entry.facts
        return cls(entry.artifacts["amdgcn"], facts["names"], from_store, tuple(facts["notes"]))


def compiled(source: Path, arch: str, options: HipOptions) -> HipCode:
    """The assembly of a source for a target.

    Nothing of the source runs. The compiler is the one that the user named or that is installed;
    what the source includes must lie where files may name others, or in folders of the user's own
    flags.

    Args:
        source: the file, as the user named it.
        arch: gfx name.
        options: how.

    Raises:
        KinspectError: there is no compiler, a flag is refused, or the source does not compile.
    """
    environment = {name: value for name, value in os.environ.items() if name not in _DROPPED}
    environment["PATH"] = absolute_folders(environment.get("PATH"))
    compiler = find_compiler(options.compiler, environment)
    flags = (*database_flags(source), *checked(options.flags))
    # Lines of what it includes from there are shown.
    rocm = [] if compiler.rocm in (None, Path("/usr")) else [compiler.rocm]
    allow(HEADERS, *folders_of(options.flags), *rocm)
    store = Store(own_cache())
    words = _words(compiler, source, arch, flags)
    index = _index_key(source, words, options, compiler)
    known = _stored(store, index)
    return known or _compile(
        store, index, _Compile(source, arch, compiler, words, options, environment)
    )


class _Compile(Struct, frozen=True):
    """One compile: the words of its command but for input and outputs."""

    source: Path
    arch: str
    compiler: HipCompiler
    words: tuple[str, ...]
    options: HipOptions
    environment: Mapping[str, str]

    def by_hand(self) -> str:
        """A command that does the same."""
        return shlex.join(
            [*self.words, "-S", "-o", str(self.source.with_suffix(".s").name), str(self.source)]
        )


def _words(compiler: HipCompiler, source: Path, arch: str, flags: Sequence[str]) -> tuple[str, ...]:
    words = [str(compiler.path), "-x", "hip", f"--offload-arch={arch}", "--offload-device-only"]
    if compiler.path.name != "hipcc":
        words.append("--no-default-config")
    if compiler.rocm is not None:
        words += [f"--rocm-path={compiler.rocm}", "-idirafter", str(HEADERS)]
        words.append(f"--rocm-device-lib-path={device_libraries(compiler.rocm)}")
    else:
        words += ["-nogpuinc", "-nogpulib", "-isystem", str(HEADERS)]
    first = "cuda_runtime.h" if source.suffix in _CUDA else "hip/hip_runtime.h"
    words += ["-include", first]
    # Without an id of the unit, equal sources have equal code.
    return (*words, "-fuse-cuid=none", "-O3", "-g1", *flags)


def _index_key(
    source: Path, words: Sequence[str], options: HipOptions, compiler: HipCompiler
) -> str:
    """The key of what a source is compiled to, whatever its headers hold."""
    inputs = {
        "hip": FORMAT,
        "source": str(source.absolute()),
        "data": hashlib.sha256(_data(source)).hexdigest(),
        "words": list(words),
        "instances": list(options.instances),
        "folder": os.getcwd(),
        "compiler": compiler.identity,
    }
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()


def _data(source: Path) -> bytes:
    try:
        return file_bytes(source, MOST_BYTES)
    except OSError as error:
        raise KinspectError(
            f"{source}: cannot be read ({error.strerror or error})", "check size and permissions"
        ) from None


def _stored(store: Store, index: str) -> HipCode | None:
    """The assembly that was made of the same source, with headers that are as they were then."""
    entry = store.get(index)
    if entry is None:
        return None
    for path, stamp, digest in entry.facts["headers"]:
        if _stamp(path) != stamp and _digest(path) != digest:
            store.remove(index)
            return None
    return HipCode.of(entry, from_store=True)


def _stamp(path: str) -> str:
    """Size and time of a header; empty where it is gone. Reading all of them takes longer."""
    try:
        state = os.stat(path)
    except OSError:
        return ""
    return f"{state.st_size} {state.st_mtime_ns}"


def _digest(path: str) -> str:
    """What a header holds, as a hash; empty where it is gone."""
    try:
        return hashlib.sha256(file_bytes(path)).hexdigest()
    except OSError:
        return ""


def _compile(store: Store, index: str, job: _Compile) -> HipCode:
    doing(f"compiling {job.source.name} for {job.arch}")
    with store.stage() as folder:
        code, dependencies = folder / _CODE, folder / _DEPENDENCIES
        main = job.source.absolute()
        if job.options.instances:
            main = folder / _MAIN
            main.write_text(_instances(job.source, job.options.instances), encoding="utf-8")
        listing = ("-dependency-file", str(dependencies), "-MT", "code", "-sys-header-deps")
        words = [
            *(*job.words, "-S", "-o", str(code), "-H", "-w"),
            *("-fno-caret-diagnostics", "-fno-color-diagnostics"),
            *(flag for word in listing for flag in ("-Xclang", word)),
            str(main),
        ]
        try:
            done = run_to_end(
                words, job.options.seconds, environment=job.environment, memory=COMPILE_MEMORY
            )
        except subprocess.TimeoutExpired:
            raise KinspectError(
                f"{job.source}: the compile took longer than {job.options.seconds:g} s",
                "give it more with --time-limit",
            ) from None
        except OSError as error:
            raise _unusable(
                job.compiler, f"cannot be started ({error.strerror or error})"
            ) from None
        stderr = done.stderr.decode(errors="replace")
        read = [*included(stderr), *_listed(dependencies)]
        _check_included(job, read, main)
        if done.returncode or not code.is_file():
            why = why_unusable(job.compiler)
            if why:
                raise _unusable(job.compiler, why)
            said = stderr.replace(str(main), str(job.source))
            raise failure(job.source, said, job.by_hand(), all_known=dependencies.is_file())
        text = code.read_text(encoding="utf-8", errors="replace")
        _check_kernels(job, text)
        headers = sorted({os.path.realpath(path) for path in read if path != main})
        facts = {
            "headers": [(path, _stamp(path), _digest(path)) for path in headers],
            "names": names_of(_KERNEL.findall(text)),
            "notes": _notes(text),
        }
        entry = store.put(index, folder, {"amdgcn": _CODE}, facts)
    return HipCode.of(entry, from_store=False)


def _unusable(compiler: HipCompiler, why: str) -> KinspectError:
    return KinspectError(
        f"the HIP compiler {compiler.path} {why}", "name another: --hip-compiler PATH"
    )


def _instances(source: Path, instances: Iterable[str]) -> str:
    """A source that includes another one and refers to some instances of its templates."""
    uses = [
        f"static void *__kinspect_use{n} = (void *)&{text};" for n, text in enumerate(instances)
    ]
    return "\n".join([f'#include "{source.absolute()}"', *uses, ""])


def _listed(dependencies: Path) -> list[Path]:
    """The files that the compiler lists for make, those that `#embed` names among them."""
    try:
        text = dependencies.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    words = text.partition(":")[2].replace("\\\n", " ")
    names = re.split(r"(?<!\\)\s+", words.strip())
    return [Path(name.replace("\\ ", " ")) for name in names if name]


def _check_included(job: _Compile, read: Iterable[Path], main: Path) -> None:
    """Raises an error if a file is included from where it may not be; nothing of it is told."""
    own = [Path(os.path.realpath(folder)) for folder in folders_of(job.options.flags)]
    compiler = Path(os.path.realpath(job.compiler.path)).parent.parent
    rocm = [job.compiler.rocm] if job.compiler.rocm not in (None, Path("/usr")) else []
    folders = [*map(Path, _SYSTEM), HEADERS, *own, *rocm]
    if compiler not in (Path("/"), Path("/usr")):
        folders.append(compiler)
    for path in read:
        place = Path(os.path.realpath(path))
        if place == Path(os.path.realpath(main)) or place == Path(os.path.realpath(job.source)):
            continue
        if not any(place.is_relative_to(folder) for folder in folders) and not is_named(place):
            raise KinspectError(
                f"{job.source}: it includes {path}, outside of its checkout and of -I folders",
                f"if it should: `-- -I FOLDER`, or {OPTION} FOLDER",
            )


def _check_kernels(job: _Compile, text: str) -> None:
    if _KERNEL.search(text):
        return
    names = [*_template_kernels(_data(job.source))]
    if names:
        listed = ", ".join(dict.fromkeys(names[:8]))
        raise KinspectError(
            f"{job.source}: its kernels are templates that it does not launch itself: {listed}",
            f"name what to compile, with values: --instantiate '{names[0]}'",
        )
    raise KinspectError(f"{job.source}: no kernel in it", "name a file with a __global__ function")


def _template_kernels(data: bytes) -> Iterator[str]:
    """Yields kernels that are templates, `gemm<M, N>`, as far as a look at the text tells."""
    at = data.find(_GLOBAL)
    while at >= 0:
        before = re.split(r"[;{}]", data[max(0, at - _NEAR) : at].decode(errors="replace"))[-1]
        behind = data[at + len(_GLOBAL) : at + _NEAR].decode(errors="replace")
        _, template, parameters = before.rpartition("template")
        names = (match["name"] for match in _NAME.finditer(behind))
        name = next((name for name in names if not name.startswith("__")), None)
        if template and name is not None:
            listed = parameters.strip().removeprefix("<").rpartition(">")[0].split(",")
            told = [re.findall(r"\w+", part.partition("=")[0]) for part in listed]
            yield f"{name}<{', '.join(words[-1] for words in told if words)}>"
        at = data.find(_GLOBAL, at + 1)


def _notes(text: str) -> list[str]:
    defined = set(re.findall(r"^([\w.$]+):", text, re.M))
    undefined = dict.fromkeys(
        m["name"] for m in _UNDEFINED.finditer(text) if m["name"] not in defined
    )
    names = ", ".join([*undefined][:3])
    return (
        [f"calls what is not in the file: {names}; their work is not counted"] if undefined else []
    )
