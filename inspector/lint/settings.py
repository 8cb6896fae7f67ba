"""`[tool.kinspect]` of a pyproject.toml: what a run asks where the command line is silent.

Strict: an unknown key or a value of another type is an error with the file and the key's path, and
all faults are reported at once. Whether a name is that of a rule, a metric or a target is checked
where those are known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from msgspec import Struct, field

from ..base.errors import FaultsError, KinspectError
from ..base.named_files import file_bytes, is_users_own

FILE = "pyproject.toml"
SECTION = "tool.kinspect"
MOST_BYTES = 4 << 20
"""Of a settings' file; the largest pyproject.toml known has 100 KiB."""
SEVERITIES = ("error", "warning", "info")

Limit = int | float | str
"""A budget: a number is the most that is allowed; a text is a comparison, `>= 2`."""


class KernelSettings(Struct, frozen=True):
    """One `[[tool.kinspect.kernel]]`: what holds for the kernels that it matches.

    Args:
        label: what messages call it: the file and its place there.
        match: shell pattern of the kernel's name, or of its case.
        file: shell pattern of its file, from the settings' folder; None: any.
        arch: shell pattern of the target, or a product; None: any.
        severity: rule -> severity in place of its own.
        budget: metric -> limit.
    """

    label: str
    place: str
    match: str
    file: str | None = None
    arch: str | None = None
    ignore: tuple[str, ...] = ()
    severity: Mapping[str, str] = field(default_factory=dict)
    budget: Mapping[str, Limit] = field(default_factory=dict)


class Settings(Struct, frozen=True):
    """The settings of a project; None for those that it does not have.

    Args:
        rules: packs: names, or paths from the file's folder.
    """

    file: Path | None = None
    rules: tuple[str, ...] | None = None
    select: tuple[str, ...] | None = None
    ignore: tuple[str, ...] = ()
    fail_on: str | None = None
    arch: tuple[str, ...] = ()
    baseline: str | None = None
    kernels: tuple[KernelSettings, ...] = ()

    @property
    def folder(self) -> Path:
        """The folder that the file's paths are relative to."""
        return self.file.parent if self.file is not None else Path()


def load(config: Path | None = None, start: Path | None = None) -> Settings:
    """Reads the settings of a run: a file, or the nearest pyproject.toml from a folder upwards.

    Raises:
        KinspectError: the file cannot be read or has faults, all of them, one per line.
    """
    if config is not None:
        text = _text(config)
        data = _section(text, config)
        if data is None:
            raise KinspectError(
                f"{config}: it has no [{SECTION}]", "add the section, or drop --config"
            )
        return parse(data, config)
    start_folder = Path.cwd() if start is None else start
    for folder in (start_folder, *start_folder.parents):
        file = folder / FILE
        if not file.is_file() or not is_users_own(folder, FILE):
            continue
        text = _text(file)
        if "kinspect" not in text:
            continue  # spares the parser
        data = _section(text, file)
        if data is not None:
            return parse(data, file)
    return Settings()


def _text(file: Path) -> str:
    try:
        return file_bytes(file, MOST_BYTES, pipes=True).decode("utf-8")
    except (OSError, ValueError) as error:  # ValueError: also a NUL in the name
        problem = error.strerror if isinstance(error, OSError) else "not in UTF-8"
        raise KinspectError(
            f"{file}: cannot be read ({problem})", "check the settings' file"
        ) from None


def _section(text: str, file: Path) -> Any:
    from ..base import limits
    from ..base.documents import toml_value

    with limits.reading(str(file), len(text)):
        data = toml_value(text, str(file))
    tool = data.get("tool")
    return tool.get("kinspect") if isinstance(tool, dict) else None


def parse(data: Any, file: Path) -> Settings:
    """Checks the section's values.

    Raises:
        KinspectError: they have faults, all of them, one per line.
    """
    faults: list[str] = []
    checked = dict(_checked(data, _RUN, SECTION, faults))
    entries = checked.pop("kernel", ())
    name = _name(file)
    kernels = []
    for number, entry in enumerate(entries, 1):
        where = f"[[{SECTION}.kernel]] {number}"
        fault_count = len(faults)
        values = dict(_checked(entry, _KERNEL, where, faults))
        if "match" not in values and len(faults) == fault_count:
            faults.append(f"{where}: match is missing: a pattern of kernels' names")
        elif not values.keys() & {"ignore", "severity", "budget"} and len(faults) == fault_count:
            faults.append(f"{where}: it asks for nothing: give ignore, severity or budget")
        else:
            kernels.append({**values, "label": f"{name}: {where}", "place": where})
    if faults:
        raise FaultsError((f"{file}: {fault}" for fault in faults), "correct the settings")
    return Settings(file=file, kernels=tuple(KernelSettings(**k) for k in kernels), **checked)


def _name(file: Path) -> str:
    try:
        return file.resolve().relative_to(Path.cwd().resolve()).as_posix()
    except (ValueError, OSError):
        return file.name


Check = Callable[[Any], "tuple[Any, str]"]
"""Gives a value as it is kept, and what is wrong with it (nothing: empty)."""


def _text_of(value: Any) -> tuple[Any, str]:
    good = isinstance(value, str) and value.strip() != ""
    return value, "" if good else f"a text, not {_quoted(value)}"


def _texts(value: Any) -> tuple[Any, str]:
    if isinstance(value, list) and all(isinstance(v, str) and v.strip() for v in value):
        return tuple(dict.fromkeys(v.strip() for v in value)), ""
    return (), f"a list of texts, not {_quoted(value)}"


def _some_texts(value: Any) -> tuple[Any, str]:
    texts, fault = _texts(value)
    return texts, fault or ("" if texts else "at least one text")


def _one_of(*choices: str) -> Check:
    def check(value: Any) -> tuple[Any, str]:
        good = isinstance(value, str) and value in choices
        return value, "" if good else f"one of {', '.join(choices)}, not {_quoted(value)}"

    return check


def _tables(value: Any) -> tuple[Any, str]:
    good = isinstance(value, list) and all(isinstance(v, dict) for v in value)
    return tuple(value) if good else (), "" if good else f"tables: [[{SECTION}.kernel]]"


def _mapping(value_check: Check, description: str) -> Check:
    def check(value: Any) -> tuple[Any, str]:
        if not isinstance(value, dict):
            return {}, f"a table, {description}, not {_quoted(value)}"
        wrong = [
            f"{key}: {fault}" for key, item in value.items() if (fault := value_check(item)[1])
        ]
        return dict(value), "; ".join(wrong)

    return check


def _limit(value: Any) -> tuple[Any, str]:
    good = isinstance(value, int | float | str) and not isinstance(value, bool)
    return value, "" if good else f'a number or a comparison (">= 2"), not {_quoted(value)}'


def _limits(value: Any) -> tuple[Any, str]:
    # A metric's dots make tables of a bare key: occupancy.waves_per_eu = 2 is as good as quoted.
    table = dict(_flat(value)) if isinstance(value, dict) else value
    return _mapping(_limit, "metric = limit")(table)


def _flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _quoted(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


_RUN: Mapping[str, Check] = MappingProxyType(
    {
        "rules": _some_texts,
        "select": _some_texts,
        "ignore": _texts,
        "fail-on": _one_of(*SEVERITIES, "never"),
        "arch": _some_texts,
        "baseline": _text_of,
        "kernel": _tables,
    }
)
_KERNEL: Mapping[str, Check] = MappingProxyType(
    {
        "match": _text_of,
        "file": _text_of,
        "arch": _text_of,
        "ignore": _some_texts,
        "severity": _mapping(_one_of(*SEVERITIES), "rule = severity"),
        "budget": _limits,
    }
)


def _checked(
    data: Any, keys: Mapping[str, Check], where: str, faults: list[str]
) -> Iterator[tuple[str, Any]]:
    """The fields that a table gives; its faults are appended."""
    if not isinstance(data, dict):
        faults.append(f"{where}: a table goes here, not {_quoted(data)}")
        return
    for key, value in data.items():
        if key not in keys:
            # Loaded on the way to an error alone: a run without settings needs none of it.
            from .catalogue import nearest

            hint = nearest(key, keys) or f" (known: {', '.join(keys)})"
            faults.append(f"{where}: unknown key {key}{hint}")
            continue
        checked, fault = keys[key](value)
        if fault:
            faults.append(f"{where}.{key}: {fault}")
        else:
            yield key.replace("-", "_"), checked
