"""The block sizes that a generated kernel is compiled with, and where they come from.

In this order: a real run's choice (`*.best_config` beside the kernel), what the file states, what
torch's own heuristics would try on the target. The heuristics are torch's functions, called with
the target's properties; nothing is timed, so all the configurations that they return are compiled,
as a run would compile them.
"""

from __future__ import annotations

import enum
import importlib
import inspect
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..missing_modules import install_hint
from ..readable_files import is_allowed, read, read_named
from ..syntax import LibraryName
from ..world.device import StandInDevice
from .generated_source import KernelSource, SourceError
from .kernel_metadata import REDUCTION_BLOCK

OPTIONS = (
    "num_warps",
    "num_stages",
    "waves_per_eu",
    "matrix_instr_nonkdim",
    "kpack",
    "num_ctas",
    "enable_fp_fusion",
)
"""Keys of a configuration that are compile options, unless the kernel has such a parameter."""
HEURISTICS_MODULE = "torch._inductor.runtime.triton_heuristics"
SCALARS = (bool, int, float, str)
FOREACH_WARPS = 8
"""`foreach` of torch/_inductor/runtime/triton_heuristics.py."""
DIMENSIONS = ("x", "y", "z")
_CACHE_ENTRY = "triton_cache_hash"


class TuningError(SourceError):
    """Block sizes that cannot be determined."""


@dataclass(frozen=True)
class Configs:
    """The configurations of one kernel."""

    values: tuple[Mapping[str, Any], ...]
    provenance: str
    by_a_run: bool = False


def configs_of(
    source: KernelSource, path: str, names: Sequence[str], device: StandInDevice
) -> Configs:
    """The configurations to compile a kernel with.

    Raises:
        TuningError: torch is missing, or its heuristics refuse the kernel.
    """
    chosen = _best_config(source, path)
    if chosen is not None:
        return Configs((chosen[0],), f"chosen by a real run ({chosen[1]})", True)
    stated = _stated_configs(source)
    if stated is not None:
        return Configs(tuple(stated), "stated in the file")
    return _heuristic_configs(source, names, device)


def split(values: Mapping[str, Any], names: Sequence[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Splits a configuration into the kernel's constants and the compile options."""
    renamed = dict(values)
    for old, new in REDUCTION_BLOCK.items():
        if old in names and old not in renamed and new in renamed:
            renamed[old] = renamed[new]
        elif new in names and new not in renamed and old in renamed:
            renamed[new] = renamed[old]
    constants = {name: value for name, value in renamed.items() if name in names}
    options = {n: v for n, v in values.items() if n in OPTIONS and n not in names and v is not None}
    # Kernels may ask for them: `num_warps: tl.constexpr`.
    return constants, {**options, **{n: values[n] for n in OPTIONS[:2] if n in values}}


def _stated_configs(source: KernelSource) -> list[dict[str, Any]] | None:
    """The configurations that a kernel's decorator states; None where heuristics choose them."""
    keywords = source.keywords
    if source.heuristic == "fixed_config":
        return [dict(keywords.get("config") or {})]
    if source.heuristic == "user_autotune":
        return [_config(config) for config in keywords.get("configs") or [{}]]
    if source.heuristic == "template":
        return [{n: keywords[n] for n in OPTIONS if keywords.get(n) is not None}]
    if source.heuristic == "foreach":
        return [{"num_warps": keywords.get("num_warps", FOREACH_WARPS), "num_stages": 1}]
    return None


def _config(stated: Any) -> dict[str, Any]:
    """A user's `triton.Config`: a dict since torch 2.3 (kwargs flat or under `kwargs`)."""
    if not isinstance(stated, Mapping):
        return {}
    inner = stated.get("kwargs")
    flat = {**inner, **stated} if isinstance(inner, Mapping) else dict(stated)
    return {n: v for n, v in flat.items() if isinstance(v, SCALARS)}


def _best_config(source: KernelSource, path: str) -> tuple[dict[str, Any], str] | None:
    """The choice that torch's autotuner wrote beside the single-kernel module, and its file's name.

    Older torch names the file after the module. Newer ones hash its name with torch's own version:
    then the choice is the one whose compiled kernel names the module in its locations, or the only
    one in a folder with no other module.
    """
    module = os.path.join(os.path.dirname(path), source.stored_at or path)
    if source.stored_at is not None and not is_allowed(os.path.dirname(module)):
        return None  # a stranger's file names the folder
    folder = os.path.dirname(module)
    choice_file = os.path.splitext(module)[0] + ".best_config"
    if os.path.isfile(choice_file):
        return _read_best_config(choice_file)
    try:
        entries = sorted(os.listdir(folder))
    except OSError:
        return None
    choices = [name for name in entries if name.endswith(".best_config")]
    for name in choices:
        choice = _read_best_config(os.path.join(folder, name))
        if choice is not None and _compiled_from(choice[0], folder, os.path.basename(module)):
            return choice
    modules = [name for name in entries if name.endswith(".py")]
    if len(choices) == 1 and modules == [os.path.basename(module)]:
        return _read_best_config(os.path.join(folder, choices[0]))
    return None


def _read_best_config(path: str) -> tuple[dict[str, Any], str] | None:
    """The choice in a file, and the file's name; None where it cannot be read."""
    try:
        choice = json.loads(read_named(path))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(choice, dict):
        return None
    kept = {n: v for n, v in choice.items() if n == _CACHE_ENTRY or v is None or isinstance(v, int)}
    return kept, os.path.basename(path)


def _compiled_from(choice: Mapping[str, Any], folder: str, module: str) -> bool:
    """Whether the entry in Triton's cache that a choice names was compiled from this module."""
    entry = choice.get(_CACHE_ENTRY)
    if not isinstance(entry, str) or not re.fullmatch(r"\w+", entry):
        return False
    caches = os.path.join(os.path.dirname(folder), "triton")
    try:
        devices = os.listdir(caches)
    except OSError:
        return False
    for device in devices:
        folder_of_entry = os.path.join(caches, device, entry)
        if not os.path.isdir(folder_of_entry):
            continue
        for name in os.listdir(folder_of_entry):
            if name.endswith((".ttir", ".source")):
                try:
                    text = read(os.path.join(folder_of_entry, name), follow=False)
                except OSError:
                    continue
                if f'/{module}"'.encode() in text:
                    return True
    return False


def _heuristic_configs(
    source: KernelSource, names: Sequence[str], device: StandInDevice
) -> Configs:
    """The configurations that torch's heuristics would try on the target."""
    torch = _torch_for_hip()
    provenance = (
        f"what torch {torch.__version__}'s {source.heuristic} heuristic tries on {device.arch}"
    )
    unique: dict[str, Mapping[str, Any]] = {}
    for config in _triton_configs(source, names, device, torch.__version__):
        values = {
            **config.kwargs,
            "num_warps": config.num_warps,
            "num_stages": config.num_stages,
        }
        unique.setdefault(repr(split(values, names)), values)
    return Configs(tuple(unique.values()), provenance)


def _torch_for_hip() -> Any:
    """Torch, made to take itself for a ROCm build.

    Constants of its heuristics depend on that, so it is set before they are imported. This process
    ends after the capture.
    """
    try:
        torch = importlib.import_module("torch")
    except ImportError as error:
        raise TuningError(
            f"block sizes are chosen by torch's heuristics, and it cannot be imported: {error}",
            install_hint(error, "torch"),
        ) from None
    torch.version.hip = torch.version.hip or "6"
    return torch


def _triton_configs(
    source: KernelSource, names: Sequence[str], device: StandInDevice, version: str
) -> list[Any]:
    """The `triton.Config`s that torch's heuristic passes to its autotuner."""
    module: Any = importlib.import_module(HEURISTICS_MODULE)
    hints = importlib.import_module("torch._inductor.runtime.hints")
    calls: list[list[Any]] = []

    def record_configs(size_hints: Any, configs: Any, **kwargs: Any) -> Any:
        calls.append(list(configs))
        return lambda function: function

    module.cached_autotune = record_configs
    heuristic = getattr(module, source.heuristic, None)
    if heuristic is None:
        raise TuningError(
            f"torch {version} has no heuristic {source.heuristic!r}",
            "name an interpreter with the torch that generated the file, with --python",
        )
    try:
        heuristic(**_arguments(source, names, heuristic, hints, device))
    except Exception as error:
        text = " ".join(str(error).split()) or type(error).__name__
        raise TuningError(
            f"torch {version}'s {source.heuristic} heuristic refuses it: {text}",
            "name an interpreter with the torch that generated the file, with --python",
        ) from error
    return calls[-1] if calls else []


def _arguments(
    source: KernelSource, names: Sequence[str], heuristic: Any, hints: Any, device: StandInDevice
) -> dict[str, Any]:
    """The arguments of a kernel's decorator, as the heuristic of this torch takes them."""
    keywords = dict(source.keywords)
    meta = dict(keywords.pop("meta", None) or keywords.get("triton_meta") or {})
    signature = {n if isinstance(n, str) else names[n]: t for n, t in meta["signature"].items()}
    meta.update(signature=signature, device=_device(hints, device))
    inductor_meta = {
        n: _resolve_enums(v, hints) for n, v in (keywords.get("inductor_meta") or {}).items()
    }
    if "XBLOCK" not in names and source.heuristic != "pointwise":
        inductor_meta["no_x_dim"] = True  # not stated before torch 2.2
    inductor_meta["persistent_reduction"] = inductor_meta.get(
        "persistent_reduction", source.heuristic == "persistent_reduction"
    )
    keywords.update(
        size_hints=_size_hints(keywords.get("size_hints"), source.heuristic),
        triton_meta=meta,
        inductor_meta=inductor_meta,
        filename=source.function,
    )
    accepted = inspect.signature(heuristic).parameters
    return {n: _resolve_enums(v, hints) for n, v in keywords.items() if n in accepted}


def _size_hints(stated: Any, heuristic: str) -> dict[str, int]:
    """Size hints by dimension, as torch has had them since 2.6.

    Before, they were a list: of pointwise kernels with the innermost dimension last.
    """
    if isinstance(stated, Mapping):
        return {("r0_" if name == "r" else name): size for name, size in stated.items()}
    sizes = [size for size in stated or () if type(size) is int]
    if heuristic == "pointwise":
        return dict(zip(DIMENSIONS, reversed(sizes)))
    *outer, reduced = sizes or [1]
    return {**dict(zip(DIMENSIONS, reversed(outer or [1]))), "r0_": reduced}


def _device(hints: Any, device: StandInDevice) -> Any:
    """The target as torch describes a ROCm device to its heuristics."""
    stated = {**device.torch_properties(), "type": "hip", "index": 0, "cc": device.arch}
    fields = hints.DeviceProperties._fields
    return hints.DeviceProperties(**{name: stated[name] for name in fields if name in stated})


def _resolve_enums(value: Any, hints: Any) -> Any:
    """Replaces the names of torch's enumeration members by the members; None for unknown ones."""
    if isinstance(value, LibraryName):
        owner = getattr(hints, value.name.split(".")[-2], None) if "." in value.name else None
        if isinstance(owner, type) and issubclass(owner, enum.Enum):
            return owner.__members__.get(value.last)
        return None
    if isinstance(value, (set, frozenset)):
        return {m for m in (_resolve_enums(v, hints) for v in value) if m is not None}
    return value
