"""Compiles a HIP source to assembly, or finds that in the store."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from ...base.errors import KinspectError
from ...base.named_files import allow, file_bytes, is_named, own_cache, readable
from ...base.programs import absolute_folders
from ...base.status import doing
from ...model import Artifact
from ..store import Store, StoreEntry
from .compilers import (
    MOST_WRITTEN,
    HipCompiler,
    Ran,
    device_libraries,
    find_compiler,
    run_compiler,
    why_unusable,
)
from .diagnosis import failure, included, outside
from .flags import checked, database_flags, folders_of
from .launches import is_launched, stated_launches
from .names import kernel_symbols, names_of, undefined_functions
from .options import HipOptions
from .templates import template_kernels

FORMAT: Final = 4
"""Part of every key: raise it when the same inputs come to mean other assembly."""
HEADERS: Final = Path(__file__).parent / "headers"
_WAVES: Final = HEADERS / "hip/kinspect/waves_per_eu.h"
_STANDARD: Final = HEADERS / "hip/kinspect/standard.h"
_OF_STANDARD: Final = re.compile(r"error: .*namespace 'std'")
_OWN: Final = re.compile(r"^(.+):\d+:\d+: warning: kinspect's own (\w+) \[", re.M)
_NAMING_OWN: Final = (
    *("-DKINSPECT_NAMES_OWN", "-Wno-everything", "-Wuser-defined-warnings"),
    "-Wno-error=user-defined-warnings",
)
"""No warning but those by which kinspect's headers say which of their functions are called."""
_NO_LIBRARIES: Final = re.compile(r"error: cannot find (?:ROCm device library|HIP runtime)")
MOST_BYTES: Final = 16 << 20
"""Of a source."""
_CUDA: Final = frozenset((".cu", ".cuh"))
"""Suffixes of sources that use CUDA's names without including them."""
_CODE: Final = "kernel.s"
_MAIN: Final = "instances.hip"
_DEPENDENCIES: Final = "dependencies"
_KEPT: Final = frozenset(
    ("HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "ROCM_PATH", "HIP_PATH", "HIP_CLANG_PATH")
)
"""Variables that a compiler gets: by others it takes flags, reads or writes files."""
_SYSTEM: Final = ("/usr/include", "/usr/lib", "/usr/lib64", "/usr/local/include", "/opt/rocm")
_HEADER_SUFFIXES: Final = (".h", ".hpp", ".hh", ".hxx", ".cuh", ".inc", ".inl", ".cu", ".hip")
_MOST_NAMED: Final = 8


class HipCode(Struct, frozen=True):
    """The assembly of a HIP source.

    `names`: symbol -> name of each kernel, as its author writes it.
    `notes`: what it lacks.
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


class NoInstanceError(KinspectError):
    """All kernels of a source are templates, and no instance of them is named."""


def compiled_as_is(
    source: Path, arch: str, options: HipOptions, meanwhile: Callable[[], None]
) -> HipCode:
    """The assembly of a source for a target; see `compiled`, which heeds `options.values` as well.

    Raises:
        NoInstanceError: it has template kernels alone.
        KinspectError: there is no compiler, a flag is refused, or the source does not compile.
    """
    environment = {name: value for name, value in os.environ.items() if name in _KEPT}
    environment["PATH"] = absolute_folders(os.environ.get("PATH"))
    compiler = find_compiler(options.compiler, os.environ)
    typed = checked(options.flags)
    flags = (*database_flags(source), *typed)
    job = _Compile(
        source=source,
        data=source_bytes(source),
        arch=arch,
        compiler=compiler,
        words=_words(compiler, source, arch, flags, options.waves_per_eu),
        flags=flags,
        own=() if options.root is not None else tuple(folders_of(typed)),
        options=options,
        environment=environment,
        meanwhile=meanwhile,
    )
    allow(HEADERS, *job.own, *job.rocm)  # lines of what it includes from there are shown
    store = Store(own_cache())
    index = job.index()
    return _stored(store, index, job) or _compile(store, index, job)


class _Compile(Struct, frozen=True):
    """One compile.

    Args:
        words: of its command but for input and outputs.
        flags: of the user's and of the build, which are among the words.
        own: folders and files that the user's own flags name to include from.
    """

    source: Path
    data: bytes
    arch: str
    compiler: HipCompiler
    words: tuple[str, ...]
    flags: tuple[str, ...]
    own: tuple[Path, ...]
    options: HipOptions
    environment: Mapping[str, str]
    meanwhile: Callable[[], None]

    def by_hand(self) -> str:
        return shlex.join(
            [*self.words, "-S", "-o", str(self.source.with_suffix(".s").name), str(self.source)]
        )

    def index(self) -> str:
        """The key of what the source is compiled to, whatever its headers hold."""
        inputs = {
            "hip": FORMAT,
            "source": str(self.source.absolute()),
            "data": hashlib.sha256(self.data).hexdigest(),
            "words": list(self.words),
            "instances": list(self.options.instances),
            "compiler": self.compiler.identity,
            "environment": dict(self.environment),
        }
        return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()

    @property
    def rocm(self) -> list[Path]:
        rocm = self.compiler.rocm
        return [] if rocm is None or rocm == Path("/usr") else [rocm]

    @property
    def searched(self) -> list[Path]:
        """Folders in which a header may come to lie that was not there before."""
        named = [Path(word[2:]) for word in self.words if word.startswith("-I/")]
        return [self.source.absolute().parent, *self.own, *named]


def _words(
    compiler: HipCompiler, source: Path, arch: str, flags: Sequence[str], waves: int | None
) -> tuple[str, ...]:
    words = [str(compiler.path), "-x", "hip", f"--offload-arch={arch}", "--offload-device-only"]
    if compiler.path.name != "hipcc":
        words.append("--no-default-config")
    name = "cuda_runtime.h" if source.suffix in _CUDA else "hip/hip_runtime.h"
    first = HEADERS / name
    if compiler.rocm is not None:
        words += [f"--rocm-path={compiler.rocm}", "-idirafter", str(HEADERS)]
        words.append(f"--rocm-device-lib-path={device_libraries(compiler.rocm)}")
        if source.suffix not in _CUDA:
            first = compiler.rocm / "include" / name
    else:
        # Of a ROCm that clang finds by itself it would take wrappers of <new>, <complex>, ...
        words += ["-nogpuinc", "-nogpulib", "-nohipwrapperinc", "-isystem", str(HEADERS)]
    # By the compiler proper: the driver looks for a precompiled header in the working folder.
    words += _including(first)
    # Without an id of the unit, equal sources have equal code, whichever folder is worked in.
    folder = source.absolute().parent
    words += ["-fuse-cuid=none", "-fno-crash-diagnostics", f"-fdebug-compilation-dir={folder}"]
    words += ["-O3", "-g1", *flags]
    if waves is not None:
        words += [f"-DKINSPECT_WAVES_PER_EU={waves}", *_including(_WAVES)]
    return tuple(words)


def _including(header: Path) -> tuple[str, ...]:
    return ("-Xclang", "-include", "-Xclang", str(header))


def _otherwise(job: _Compile, stderr: str) -> _Compile | None:
    """How to try a compile again that failed for a reason that can be mended; None if none can."""
    if job.compiler.rocm is not None and _NO_LIBRARIES.search(stderr):
        compiler = replace(job.compiler, rocm=None)
        words = _words(compiler, job.source, job.arch, job.flags, job.options.waves_per_eu)
        return replace(job, compiler=compiler, words=words)
    words = (*job.words, *_including(_STANDARD))
    if _OF_STANDARD.search(stderr) and job.compiler.rocm is None and words[-4:] != job.words[-4:]:
        return replace(job, words=words)
    return None


def _with_stated(job: _Compile, names: Mapping[str, str]) -> _Compile | None:
    """The compile with the instances of which the source states launches and has no code."""
    launches = stated_launches(job.data.decode(errors="replace"), job.flags, str(job.source))
    lacking = [
        kernel
        for kernel in launches.kernels
        if "<" in kernel and not any(is_launched(kernel, name) for name in names.values())
    ]
    instances = tuple(dict.fromkeys((*job.options.instances, *lacking)))
    if instances == job.options.instances:
        return None
    return replace(job, options=replace(job.options, instances=instances))


def source_bytes(source: Path) -> bytes:
    """What a source holds."""
    try:
        return file_bytes(source, MOST_BYTES)
    except OSError as error:
        raise KinspectError(
            f"{source}: cannot be read ({error.strerror or error})", "check size and permissions"
        ) from None


def _stored(store: Store, index: str, job: _Compile) -> HipCode | None:
    """The assembly that was made of the same source, with headers that are as they were then."""
    entry = store.get(index)
    if entry is None:
        return None
    headers = entry.facts["headers"]
    is_same = all(_digest(path) == digest for path, digest in headers)
    if not is_same or entry.facts["listing"] != _listing(job):
        store.remove(index)
        return None
    _check_included(job, [Path(path) for path, _ in headers])
    return HipCode.of(entry, from_store=True)


def _digest(path: str) -> str:
    """What a header holds, as a hash; empty where it is gone."""
    try:
        return hashlib.sha256(file_bytes(path)).hexdigest()
    except OSError:
        return ""


def _listing(job: _Compile) -> str:
    """The names of headers where new ones would be found before others, as a hash."""
    names: list[str] = []
    for folder in job.searched:
        try:
            listed = sorted(entry.name for entry in os.scandir(folder))
        except OSError:
            continue
        names += [str(folder), *(name for name in listed if name.endswith(_HEADER_SUFFIXES))]
    return hashlib.sha256("\0".join(names).encode("utf-8", "surrogateescape")).hexdigest()


def _compile(store: Store, index: str, job: _Compile) -> HipCode:
    doing(f"compiling {job.source.name} for {job.arch}")
    with store.stage() as folder:
        code, dependencies = folder / _CODE, folder / _DEPENDENCIES
        main = job.source.absolute()
        if job.options.instances:
            main = folder / _MAIN
            main.write_text(_instances(job.source, job.options.instances), encoding="utf-8")
        words = [
            *(*job.words, "-S", "-o", str(code), "-H", *_NAMING_OWN),
            *("-fno-caret-diagnostics", "-fno-color-diagnostics", f"-ffile-prefix-map={folder}=."),
            str(main),
        ]
        listing = ("-dependency-file", str(dependencies), "-MT", "code", "-sys-header-deps")
        lists = [flag for word in listing for flag in ("-Xclang", word)]
        listed, began = _listing(job), time.time()
        ran = _ran(job, folder, [*words, *lists])
        if not ran.status and not dependencies.is_file():
            # A file of `#embed` is missing, which is no error where dependencies are listed.
            ran = _ran(job, folder, words)
            code.unlink(missing_ok=True)
        read = [path for path in (*included(ran.stderr), *_listed(dependencies)) if path != main]
        _check_included(job, read)
        if ran.status or not code.is_file():
            why = why_unusable(job.compiler)
            if why:
                raise _unusable(job.compiler, why)
            if code.is_file() and code.stat().st_size >= MOST_WRITTEN:
                raise KinspectError(
                    f"{job.source}: its assembly has more than {MOST_WRITTEN >> 20} MiB",
                    "compile a part of it",
                )
            other = _otherwise(job, ran.stderr)
            if other is not None:
                return _compile(store, index, other)
            is_known = ran.is_confined or dependencies.is_file()
            if job.options.instances and is_known:
                _check_instances(job, main, ran.stderr)
            said = ran.stderr.replace(str(main), str(job.source))
            raise failure(job.source, said, job.by_hand(), all_known=is_known)
        text = code.read_text(encoding="utf-8", errors="replace")
        kernels = kernel_symbols(text)
        other = _with_stated(job, names_of(kernels))
        if other is not None:
            return _compile(store, index, other)
        _check_kernels(job, kernels)
        headers = sorted({os.path.realpath(path) for path in read})
        facts = {
            "headers": [(path, _digest(path)) for path in headers],
            "listing": listed,
            "names": names_of(kernels),
            "notes": [*_notes(text), *_of_own_code(ran.stderr)],
        }
        if _changed_meanwhile(job, headers, began):
            index = hashlib.sha256(f"{index} {began} {os.getpid()}".encode()).hexdigest()
        entry = store.put(index, folder, {"amdgcn": _CODE}, facts)
    return HipCode.of(entry, from_store=False)


def _ran(job: _Compile, folder: Path, words: Sequence[str]) -> Ran:
    """Runs the compiler."""
    included_from = map(str, (job.source.absolute(), HEADERS, *job.own, *job.rocm))
    try:
        return run_compiler(
            words,
            job.compiler.path,
            folder,
            job.options.seconds,
            job.environment,
            _readable(job),
            included_from,
            job.meanwhile,
        )
    except OSError as error:
        raise _unusable(job.compiler, f"cannot be started ({error.strerror or error})") from None
    except KinspectError as error:
        raise KinspectError(f"{job.source}: {error.message}", error.hint) from None


def _readable(job: _Compile) -> list[str]:
    return readable() if job.options.root is None else [str(job.options.root)]


def _changed_meanwhile(job: _Compile, headers: Iterable[str], began: float) -> bool:
    """Whether nobody knows which contents of a file were compiled: it is not found again then."""
    if source_bytes(job.source) != job.data:
        return True
    return any(os.path.exists(path) and os.stat(path).st_mtime >= began for path in headers)


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


def _check_instances(job: _Compile, main: Path, stderr: str) -> None:
    error = re.search(r"^([^\n:]+):(\d+):\d+: error: (.+)$", stderr, re.M)
    if error is None or error[1] != str(main):
        return
    instance = job.options.instances[int(error[2]) - 2]
    raise KinspectError(
        f"{job.source}: {instance} is no instance of its templates: {error[3][:200]}",
        "as it would be launched: --instantiate 'gemm<128, float>', or after KINSPECT_LAUNCH",
    )


def _listed(dependencies: Path) -> list[Path]:
    """The files that the compiler lists for make, those that `#embed` names among them."""
    try:
        text = os.fsdecode(dependencies.read_bytes())
    except OSError:
        return []
    names = re.split(r"(?<!\\) +(?:\\\n *)?", text.partition(":")[2].strip(" \n"))
    plain = (name.replace("\\ ", " ").replace("\\#", "#").replace("$$", "$") for name in names)
    return [Path(name) for name in plain if name.strip("\\\n")]


def _check_included(job: _Compile, read: Iterable[Path]) -> None:
    """Raises an error if a file is included from where it may not be; nothing of it is told."""
    folders = [Path(os.path.realpath(folder)) for folder in (*job.own, *job.rocm, HEADERS)]
    folders += [Path(os.path.realpath(job.compiler.path)).parent.parent / "lib" / "clang"]
    folders += map(Path, _SYSTEM)
    source = Path(os.path.realpath(job.source))
    for path in read:
        place = Path(os.path.realpath(path))
        if place == source or any(place.is_relative_to(folder) for folder in folders):
            continue
        root = job.options.root
        if not is_named(place) or not (root is None or place.is_relative_to(root)):
            raise outside(job.source, str(path))


def _check_kernels(job: _Compile, kernels: Sequence[str]) -> None:
    if kernels:
        return
    templates = template_kernels(job.data.decode(errors="replace"))
    names = dict.fromkeys(template.instance({}) for template in templates)
    if names:
        listed = ", ".join([*names][:_MOST_NAMED])
        raise NoInstanceError(
            f"{job.source}: its kernels are templates that it does not launch itself: {listed}",
            f"name what to compile, with values: --instantiate '{next(iter(names))}'",
        )
    raise KinspectError(f"{job.source}: no kernel in it", "name a file with a __global__ function")


def _notes(assembly: str) -> list[str]:
    lacking = undefined_functions(assembly)
    if not lacking:
        return []
    return [f"calls what is not in the file: {', '.join(lacking[:3])}; their work is not counted"]


def _of_own_code(stderr: str) -> list[str]:
    """A note on the functions called of kinspect's own headers that ROCm has other code for."""
    skipped = (str(HEADERS), *_SYSTEM)
    names = sorted({name for path, name in _OWN.findall(stderr) if not path.startswith(skipped)})
    if not names:
        return []
    listed = ", ".join(names[:_MOST_NAMED])
    return [f"ROCm's device libraries are not here: its {listed} have other instructions"]
