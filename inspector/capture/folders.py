"""A folder as targets: each kernel in it once.

Folders of all sorts come here: sources, Triton's cache and dumps, TorchInductor's cache (wrappers,
single-kernel modules and Triton's cache under one root) and TORCH_COMPILE_DEBUG's. In the last two
one kernel lies about in up to three forms; see `_without_copies`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from .entries import GROUP, entries_of, made_for
from .targets import STAGES, SUFFIXES, Target, kind_of

SKIPPED_FOLDERS = frozenset({"__pycache__", "node_modules", "site-packages"})
BESIDE_OUTPUT_CODE = re.compile(r"fx_graph_\w+\.py")
"""What TORCH_COMPILE_DEBUG writes beside `output_code.py`: the graphs, which define no kernels."""
_DEFINES_KERNELS = re.compile(
    rb"^\s*@(?:triton\.)?(?:jit|autotune|heuristics)\b|KINSPECT_CASES", re.M
)
_SOURCES = re.compile(
    r"async_compile\.triton\((?:\s*['\"][^'\"]*['\"],)?\s*'''(?P<source>.*?)'''", re.S
)
_LOCATION = re.compile(r"\bloc\(\"(?P<path>[^\"]+\.py)\":\d+")
_BEST_CONFIG_HASH = re.compile(r"\"triton_cache_hash\"\s*:\s*\"(\w+)\"")


def targets_in(root: Path, archs: Sequence[str] = ()) -> list[Target]:
    """The kernels in a folder and those below it.

    Args:
        root: the folder.
        archs: gfx names that were asked for; see `resolving.resolve`.
    """
    targets: list[Target] = []
    chosen: set[str] = set()
    for folder in _walk(root):
        files = sorted(p for p in folder.iterdir() if p.is_file())
        targets += _files(files)
        targets += entries_of(files, archs)
        chosen.update(_chosen_entries(files))
    if not any(target.kind == "inductor" for target in targets):
        return targets
    return _without_copies(targets, chosen)


def _files(files: Sequence[Path]) -> Iterator[Target]:
    """The targets that are a file by themselves: sources, and assembly that is not Triton's."""
    names = {path.name for path in files}
    of_triton = set(STAGES.values())
    for path in files:
        kind = SUFFIXES.get(path.suffix)
        if kind in (None, "report", "archive", "trace") or path.suffix in of_triton:
            continue
        if "output_code.py" in names and BESIDE_OUTPUT_CODE.fullmatch(path.name):
            continue
        actual = kind_of(path)
        if actual == "script" and not _holds(path, _DEFINES_KERNELS):
            continue
        if actual == "inductor" and not _holds_kernels(path):
            continue
        if actual is not None:
            yield Target(path, actual)


def _walk(root: Path) -> Iterator[Path]:
    yield root
    for child in sorted(root.iterdir()):
        if (
            child.is_dir()
            and not child.is_symlink()
            and not child.name.startswith(".")
            and child.name not in SKIPPED_FOLDERS
        ):
            yield from _walk(child)


def _holds(path: Path, pattern: re.Pattern[bytes]) -> bool:
    try:
        return pattern.search(path.read_bytes()) is not None
    except OSError:
        return False


def _holds_kernels(path: Path) -> bool:
    """Whether a wrapper of Inductor's launches anything but library kernels."""
    text = path.read_text("utf-8", "replace")
    return "async_compile.triton(" in text or "AsyncCompile()" not in text


# --------------------------------------------------------------------------- Inductor's copies


def _without_copies(targets: Sequence[Target], chosen: set[str]) -> list[Target]:
    """Each kernel of an Inductor cache in one form.

    The real code for an AMD target counts most. A source counts more than what was compiled from it
    for NVIDIA, since it is specialised for the target anew. A wrapper counts more than the
    single-kernel modules of its kernels, since it tells where they are launched, and how.

    Args:
        targets: all targets.
        chosen: names of the entries of Triton's cache that the autotuner chose.
    """
    sources = {
        t.path: t.path.read_text("utf-8", "replace") for t in targets if t.kind == "inductor"
    }
    wrappers = {p: _inner(text) for p, text in sources.items() if "AsyncCompile()" in text}
    modules = {text.strip(): p for p, text in sources.items() if p not in wrappers}
    names = {path.name for path in modules.values()}
    compiled: dict[str, list[Target]] = {}  # name of a single-kernel module -> its entries
    for target in targets:
        module = _compiled_from(target) if target.kind != "inductor" else None
        if module is not None:
            compiled.setdefault(module, []).append(target)
    real = {name for name, entries in compiled.items() if any(map(_is_amd, entries))}
    dropped = {p for p in sources if p not in wrappers and p not in modules.values()}
    for name, entries in compiled.items():
        chosen_paths = [t.path for t in entries if t.path.parent.name in chosen]
        chosen_paths = chosen_paths or [t.path for t in entries]
        if name in names and name not in real:
            chosen_paths = []
        dropped.update(t.path for t in entries if t.path not in chosen_paths)
    dropped.update(t.path for t in targets if _of_sources(t, sources) and not _is_amd(t))
    wrapper_texts: set[tuple[str, ...]] = set()
    for wrapper, texts in wrappers.items():
        wrapped = [modules[text] for text in texts if text in modules]
        replaced = len(wrapped) == len(texts) and any(path.name in real for path in wrapped)
        if replaced or texts in wrapper_texts:
            dropped.add(wrapper)
        if not replaced:
            dropped.update(wrapped)
        wrapper_texts.add(texts)
    dropped.update(path for path in modules.values() if path.name in real)
    return [t for t in targets if t.path not in dropped]


def _inner(text: str) -> tuple[str, ...]:
    return tuple(match["source"].strip() for match in _SOURCES.finditer(text))


def _compiled_from(target: Target) -> str | None:
    """Name of the module that an entry's first location is in; None for all but entries."""
    if target.path.suffix not in STAGES.values():
        return None
    for stage in ("ttir", "ttgir"):
        path = target.path if target.path.suffix == STAGES[stage] else target.siblings.get(stage)
        if path is not None:
            match = _LOCATION.search(path.read_text("utf-8", "replace"))
            if match:
                return Path(match["path"]).name
    return None


def _of_sources(target: Target, sources: Iterable[Path]) -> bool:
    """Whether an entry that names no source lies in an Inductor cache, beside the sources.

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
    own = made_for({**target.siblings, stage: target.path})
    return own is not None and own.amd


def _chosen_entries(files: Sequence[Path]) -> Iterator[str]:
    for path in files:
        if path.suffix == ".best_config" and not path.name.startswith(GROUP):
            match = _BEST_CONFIG_HASH.search(path.read_text("utf-8", "replace"))
            if match:
                yield match[1]
