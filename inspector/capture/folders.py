"""Finds the targets in a folder: each kernel once.

A folder may hold sources, Triton's cache or dumps, TorchInductor's cache (wrappers, single-kernel
modules and Triton's cache under one root) or the files of TORCH_COMPILE_DEBUG. The last two have a
kernel in up to three forms; see `_without_copies`.

Such folders, and those of a profiler's runs, are only read: scripts in them are not run.
"""

from __future__ import annotations

import ast
import itertools
import os
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from ..base.documents import python_tree
from ..base.errors import KinspectError
from ..base.named_files import file_bytes, file_text
from ..machines.loader import DEFAULT_ARCH
from ..model.recording import MANIFEST
from .targets import STAGES, SUFFIXES, Target, declares_kernel, kind_of, outside, triton_metadata
from .triton_entries import GROUP_PREFIX, compile_target, entries_of

SKIPPED_FOLDERS = frozenset({"__pycache__", "node_modules", "site-packages"})
BESIDE_OUTPUT_CODE = re.compile(r"fx_graph_\w+\.py")
"""Files with graphs, without kernels, that TORCH_COMPILE_DEBUG writes beside `output_code.py`."""
_HASH = re.compile(r"[A-Z2-7]{52}|[0-9a-f]{32,64}")
"""Name of the folder of an entry in Triton's cache or dump."""
_INDUCTORS_LETTERS = 2
"""Of a folder of Inductor's cache."""
_READ_FOLDER = re.compile(r"torch_compile_debug|torchinductor_.*|\.triton|[A-Z2-7]{52}")
"""Names that only folders of Inductor's and Triton's have."""
_DEFINES_KERNELS = re.compile(
    rb"^\s*@(?:triton\.)?(?:jit|autotune|heuristics)\b|KINSPECT_CASES", re.M
)
_SOURCES = re.compile(
    r"async_compile\.triton\((?:\s*['\"][^'\"]*['\"],)?\s*'''(?P<source>.*?)'''", re.S
)
_LOCATION = re.compile(r"\bloc\(\"(?P<path>[^\"]+\.py)\":\d+")
_BEST_CONFIG_HASH = re.compile(r"\"triton_cache_hash\"\s*:\s*\"(\w+)\"")


def targets_in(root: Path, archs: Sequence[str] = ()) -> list[Target]:
    """The kernels in a folder and those below it."""
    targets: list[Target] = []
    chosen_entries: set[str] = set()
    for files in _walk(root):
        refused = {path: fault for path in files if (fault := outside(path)) is not None}
        targets += (Target(p, "asm", fault=fault) for p, fault in refused.items() if _is_known(p))
        files = [path for path in files if path not in refused]
        targets += _file_targets(files, archs)
        targets += entries_of(files, archs)
        chosen_entries.update(_best_entries(files))
    generated = set(_generated(targets))
    targets = [
        _unless_read_only(target, generated)
        for target in _without_device_functions(targets)
        if target.kind != "inductor" or _holds_kernels(target.path)
    ]
    if not any(target.kind == "inductor" for target in targets):
        return targets
    return _without_copies(targets, chosen_entries)


def launching_target(file: str, library: Target) -> Target | None:
    """The target that launches the kernels of a file of a folder; None where it is not run."""
    if library.folder is None:
        return None
    try:
        inner = _place(Path(file)).relative_to(_place(library.folder))
    except ValueError:
        return None
    if any(part.startswith(".") or part in SKIPPED_FOLDERS for part in inner.parts):
        return None
    target = Target(library.folder / inner, "script", library.kernel, folder=library.folder)
    return target if _unless_read_only(target, ()).fault is None else None


def _file_targets(files: Sequence[Path], archs: Sequence[str]) -> Iterator[Target]:
    """The targets of single files: sources, and assembly that is not Triton's."""
    module_names = {path.name for path in files}
    of_triton = set(STAGES.values())
    for path in files:
        kind = SUFFIXES.get(path.suffix)
        if kind in (None, "report", "archive", "trace") or path.suffix in of_triton:
            continue
        if "output_code.py" in module_names and BESIDE_OUTPUT_CODE.fullmatch(path.name):
            continue
        actual = kind_of(path)
        if actual == "script" and not _matches(path, _DEFINES_KERNELS):
            continue
        if actual == "hip":
            if path.suffix == ".hip" and declares_kernel(path):
                yield from (
                    Target(path, actual, archs=(arch,)) for arch in archs or (DEFAULT_ARCH,)
                )
        elif actual is not None:
            yield Target(path, actual)


def _without_device_functions(targets: Sequence[Target]) -> list[Target]:
    """The targets without files that define and launch nothing but what kernels call."""
    trees = {t.path: tree for t in targets if t.kind == "script" and (tree := _tree(t.path))}
    functions = {path: list(_jit_functions(tree)) for path, tree in trees.items()}
    called = {
        node.func.id
        for function in itertools.chain(*functions.values())
        for node in ast.walk(function)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }

    def is_launched(function: ast.FunctionDef) -> bool:
        nodes = ast.walk(function)
        returns = any(isinstance(n, ast.Return) and n.value is not None for n in nodes)
        return not returns and function.name not in called

    return [
        target
        for target in targets
        if target.path not in trees
        or not functions[target.path]
        or any(map(is_launched, functions[target.path]))
        or _runs(trees[target.path])
    ]


def _tree(path: Path) -> ast.Module | None:
    try:
        return python_tree(file_bytes(path))
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _jit_functions(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            for decorator in node.decorator_list:
                function = decorator.func if isinstance(decorator, ast.Call) else decorator
                if getattr(function, "attr", getattr(function, "id", "")) == "jit":
                    yield node


def _runs(tree: ast.Module) -> bool:
    """Whether a file states cases, launches a kernel anywhere, or does anything when it is run."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id == "KINSPECT_CASES":
            return True
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript):
            return True
    return any(
        isinstance(node, ast.If | ast.For | ast.With | ast.Try)
        or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call))
        for node in tree.body
    )


def _is_known(path: Path) -> bool:
    return path.suffix in SUFFIXES or path.suffix in STAGES.values()


def _place(path: Path) -> Path:
    """Where a file lies, however it was named."""
    return Path(os.path.realpath(path))


def _generated(targets: Iterable[Target]) -> Iterator[Path]:
    """The folders in which Triton and Inductor wrote these targets, and the caches above them."""
    for target in targets:
        folder = _place(target.path.parent)
        if target.kind == "inductor":
            yield folder
            if len(folder.name) == _INDUCTORS_LETTERS:
                yield folder.parent
        elif _HASH.fullmatch(folder.name):
            yield folder.parent
            if folder.parent.name.isdecimal() and folder.parent.parent.name == "triton":
                yield from folder.parent.parents[:2]  # Inductor's: triton/DEVICE/HASH
        elif triton_metadata(target.siblings.get("metadata")) is not None:
            yield folder


def _unless_read_only(target: Target, generated: Container[Path]) -> Target:
    """A target, with a fault where it would be run and lies in a folder that is only read."""
    if target.kind not in ("script", "inductor", "hip"):
        return target
    linked = _place(target.path.parent) / target.path.name  # a link counts where it lies, too
    folders = (*_place(target.path).parents, *linked.parents)
    recorded = next((folder for folder in folders if (folder / MANIFEST).is_file()), None)
    if recorded is not None:
        why = f"it lies in the recording {recorded}"
    elif target.kind in ("script", "hip") and any(
        folder in generated or _READ_FOLDER.fullmatch(folder.name) for folder in folders
    ):
        why = "it lies among what Triton or Inductor wrote"
    else:
        return target
    fault = KinspectError(f"{target.path}: not run, since {why}", "name the file itself to run it")
    return replace(target, fault=fault)


def _walk(root: Path) -> Iterator[list[Path]]:
    """The files of a folder and of each below it, without hidden folders and `SKIPPED_FOLDERS`."""
    with os.scandir(root) as entries:
        listed = sorted(entries, key=lambda entry: entry.name)
    yield [root / entry.name for entry in listed if _is_file(entry)]
    for entry in listed:
        if (
            entry.is_dir(follow_symlinks=False)
            and not entry.name.startswith(".")
            and entry.name not in SKIPPED_FOLDERS
        ):
            yield from _walk(root / entry.name)


def _is_file(entry: os.DirEntry[str]) -> bool:
    # Path knows of links in a circle; of others the folder itself says what they are.
    return Path(entry).is_file() if entry.is_symlink() else entry.is_file()


def _matches(path: Path, pattern: re.Pattern[bytes]) -> bool:
    try:
        return pattern.search(file_bytes(path)) is not None
    except OSError:
        return False


def _holds_kernels(path: Path) -> bool:
    """Whether a wrapper of Inductor's launches anything but library kernels."""
    text = file_text(path)
    return "async_compile.triton(" in text or "AsyncCompile()" not in text


def _without_copies(targets: Sequence[Target], chosen_entries: set[str]) -> list[Target]:
    """The targets of an Inductor cache, with each kernel in one form.

    Code compiled for an AMD target is preferred. A source is preferred to code compiled from it for
    NVIDIA, since it can be specialised for the target. A wrapper is preferred to the single-kernel
    modules of its kernels, since it has their launches.
    """
    sources = {t.path: file_text(t.path) for t in targets if t.kind == "inductor"}
    wrappers = {p: _kernel_sources(text) for p, text in sources.items() if "AsyncCompile()" in text}
    modules = {text.strip(): p for p, text in sources.items() if p not in wrappers}
    compiled: dict[str, list[Target]] = {}  # name of a single-kernel module -> its entries
    for target in targets:
        module = _compiled_from(target) if target.kind != "inductor" else None
        if module is not None:
            compiled.setdefault(module, []).append(target)
    amd_modules = {name for name, entries in compiled.items() if any(map(_is_amd, entries))}
    better_modules = {path.name for path in modules.values()} - amd_modules
    dropped = {p for p in sources if p not in wrappers and p not in modules.values()}
    for name, entries in compiled.items():
        if name in better_modules:
            dropped.update(t.path for t in entries)
        else:
            dropped.update(_not_chosen(entries, chosen_entries))
    dropped.update(t.path for t in targets if _is_beside_sources(t, sources) and not _is_amd(t))
    dropped.update(_copies_of_wrapped(wrappers, modules, amd_modules))
    dropped.update(path for path in modules.values() if path.name in amd_modules)
    return [t for t in targets if t.path not in dropped]


def _not_chosen(entries: Sequence[Target], chosen_entries: set[str]) -> Iterator[Path]:
    chosen = {t.path for t in entries if t.path.parent.name in chosen_entries}
    return (t.path for t in entries if chosen and t.path not in chosen)


def _copies_of_wrapped(
    wrappers: Mapping[Path, tuple[str, ...]], modules: Mapping[str, Path], amd_modules: set[str]
) -> Iterator[Path]:
    """Yields wrappers whose kernels other files have, and single-kernel modules of others."""
    wrapper_texts: set[tuple[str, ...]] = set()
    for wrapper, texts in wrappers.items():
        wrapped = [modules[text] for text in texts if text in modules]
        replaced = len(wrapped) == len(texts) and any(path.name in amd_modules for path in wrapped)
        if replaced or texts in wrapper_texts:
            yield wrapper
        if not replaced:
            yield from wrapped
        wrapper_texts.add(texts)


def _kernel_sources(text: str) -> tuple[str, ...]:
    return tuple(match["source"].strip() for match in _SOURCES.finditer(text))


def _compiled_from(target: Target) -> str | None:
    """Name of the module in an entry's first location; None for other targets."""
    if target.path.suffix not in STAGES.values():
        return None
    for stage in ("ttir", "ttgir"):
        path = target.path if target.path.suffix == STAGES[stage] else target.siblings.get(stage)
        if path is not None:
            match = _LOCATION.search(file_text(path))
            if match:
                return Path(match["path"]).name
    return None


def _is_beside_sources(target: Target, sources: Iterable[Path]) -> bool:
    """Whether an entry without locations lies in an Inductor cache beside the sources.

    Triton 2.1 and older wrote no locations. Inductor's Triton cache is `triton/DEVICE/HASH`.
    """
    if target.kind == "inductor" or _compiled_from(target) is not None:
        return False
    parents = target.path.parents
    if len(parents) < 4 or parents[2].name != "triton":
        return False
    return any(path.is_relative_to(parents[3]) for path in sources)


def _is_amd(target: Target) -> bool:
    stage = next((s for s, suffix in STAGES.items() if suffix == target.path.suffix), "")
    own = compile_target({**target.siblings, stage: target.path})
    return own is not None and own.amd


def _best_entries(files: Sequence[Path]) -> Iterator[str]:
    for path in files:
        if path.suffix == ".best_config" and not path.name.startswith(GROUP_PREFIX):
            match = _BEST_CONFIG_HASH.search(file_text(path))
            if match:
                yield match[1]
