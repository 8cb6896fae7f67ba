"""`KINSPECT_CASES`: the specialisations that a file states for its own kernels.

A case is plain data, a dict with these keys:

    name         its name in reports (required)
    kernel       name of a @triton.jit function of the module (required)
    signature    argument -> Triton type; `:16` adds "divisible by 16", `:1` "equal to 1"
    constexprs   argument -> value
    options      num_warps, num_stages, waves_per_eu, ... (optional)
    grid         one to three numbers, or a function of a dict of constexprs and args (optional)
    args         argument -> its number; of a pointer elements or a shape (optional: for the time)
    archs        fnmatch patterns of the gfx names to compile for (optional: all)
    small_tensors  whether every tensor's storage is within 2 GiB (optional: True)

This module checks a case against the kernel's parameters and makes the input of Triton's front end
from it, as `JITFunction.run` would; it does not need Triton.

Checks the values of the compile options that a case states.
"""

from __future__ import annotations

import difflib
import fnmatch
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..records import HintedError
from .types import ADVICE, is_type, nearest_type

KEYS = (
    "name",
    "kernel",
    "signature",
    "constexprs",
    "options",
    "grid",
    "args",
    "archs",
    "small_tensors",
)
STATED = "stated"
"""Name of the case that --signature and -D state."""
TYPE = re.compile(r"(?P<type>.+?)(?::(?P<suffix>\d+))?\s*")
DIVISIBLE = "16"
SUFFIX_ONE = "1"
INTEGER = re.compile(r"[iu]\d+")


class CaseError(HintedError):
    """A case that cannot be compiled."""


@dataclass(frozen=True)
class KernelParameter:
    """One parameter of a kernel.

    Args:
        default: its default value, in a tuple; None without one.
        specialize: False if `do_not_specialize` names it.
        align: False if `do_not_specialize` or `do_not_specialize_on_alignment` names it.
    """

    name: str
    constexpr: bool
    default: tuple[Any] | None
    specialize: bool = True
    align: bool = True


@dataclass(frozen=True)
class Case:
    """A case whose values have the right types; its arguments are not compared with the kernel.

    The fields are the keys of the file's dict, see above.
    """

    name: str
    kernel: str
    signature: Mapping[str, str]
    constexprs: Mapping[str, Any]
    options: Mapping[str, Any]
    grid: tuple[int, ...] | Callable[[Mapping[str, Any]], Any] | None
    args: Mapping[str, Any] | None
    archs: tuple[str, ...] | None
    small_tensors: bool

    def is_for(self, arch: str) -> bool:
        """Whether the case is meant for this gfx target."""
        return self.archs is None or any(fnmatch.fnmatchcase(arch, a) for a in self.archs)


@dataclass(frozen=True)
class TuningConfig:
    """One configuration of an autotuned kernel, which a case has to state itself."""

    constexprs: Mapping[str, Any]
    options: Mapping[str, Any]


@dataclass(frozen=True)
class BoundCase:
    """The input of Triton's front end.

    Args:
        signature: argument -> Triton type.
        constants: argument -> value.
        divisible: arguments that are multiples of 16.
        small: pointers whose storage is within 2 GiB.
    """

    signature: Mapping[str, str]
    constants: Mapping[str, Any]
    divisible: frozenset[str]
    small: frozenset[str]


def read_case(index: int, raw: Any) -> Case:
    """Checks the types of one entry of `KINSPECT_CASES`.

    Raises:
        CaseError: a key is missing, unknown or of another type.
    """
    subject = f"KINSPECT_CASES[{index}]"
    if not isinstance(raw, dict):
        raise CaseError(f"{subject} is a {type(raw).__name__}, not a dict", "write it as a dict")
    if isinstance(raw.get("name"), str) and raw["name"]:
        subject = f"case {raw['name']!r}"
    unknown = [str(key) for key in raw if key not in KEYS]
    if unknown:
        raise CaseError(
            f"{subject} has no key {_quoted(unknown)}{did_you_mean(unknown, KEYS)}",
            "the keys are " + ", ".join(KEYS),
        )
    return Case(
        name=_text(subject, "name", raw.get("name")),
        kernel=_text(subject, "kernel", raw.get("kernel")),
        signature=_signature(subject, raw),
        constexprs=_table(subject, "constexprs", raw),
        options=_table(subject, "options", raw),
        grid=raw["grid"] if callable(raw.get("grid")) else checked_grid(subject, raw.get("grid")),
        args=_table(subject, "args", raw) if "args" in raw else None,
        archs=_archs(subject, raw.get("archs")),
        small_tensors=_flag(subject, "small_tensors", raw.get("small_tensors", True)),
    )


def specialize(
    case: Case, parameters: Iterable[KernelParameter], config: TuningConfig | None = None
) -> BoundCase:
    """Binds a case to its kernel's parameters, defaults included.

    `config`: a configuration of an autotuned kernel, as an example for the message.

    Raises:
        CaseError: an argument is missing or unknown, or no launch makes such a specialisation.
    """
    parameters = list(parameters)
    subject = f"case {case.name!r} of kernel {case.kernel!r}"
    _check_names(subject, case, parameters, config)
    signature: dict[str, str] = {}
    constants: dict[str, Any] = {}
    divisible, small = set(), set()
    for parameter in parameters:
        name = parameter.name
        if name in case.constexprs or name not in case.signature:
            value = _constant(subject, case, parameter)
            signature[name], constants[name] = "constexpr", value
            continue
        type_name, suffix = _split_type(subject, case, parameter)
        if suffix == SUFFIX_ONE:
            signature[name], constants[name] = "constexpr", 1
            continue
        signature[name] = type_name
        if suffix == DIVISIBLE:
            divisible.add(name)
        if case.small_tensors and type_name.startswith("*") and parameter.specialize:
            small.add(name)
    return BoundCase(signature, constants, frozenset(divisible), frozenset(small))


def did_you_mean(wrong: Iterable[str], names: Iterable[str]) -> str:
    """The text ` (did you mean 'x'?)` with the nearest names; empty where none is near."""
    pool = list(names)
    suggestion = [
        m for name in wrong for m in difflib.get_close_matches(name, pool, n=1, cutoff=0.6)
    ]
    return f" (did you mean {_quoted(dict.fromkeys(suggestion))}?)" if suggestion else ""


def _check_names(
    subject: str, case: Case, parameters: list[KernelParameter], config: TuningConfig | None
) -> None:
    names = [p.name for p in parameters]
    stated_names = [*case.signature, *case.constexprs]
    extra = [n for n in dict.fromkeys(stated_names) if n not in names]
    missing = [
        p.name
        for p in parameters
        if p.name not in stated_names
        and (p.default is None or not (p.constexpr or p.default[0] is None))
    ]
    repeated = [n for n in case.signature if n in case.constexprs]
    if repeated:
        raise CaseError(
            f"{subject} names {_quoted(repeated)} both in 'signature' and in 'constexprs'",
            "name it once",
        )
    if missing or extra:
        faults = [f"does not name {_quoted(missing)}"] if missing else []
        if extra:
            suggestion = did_you_mean(extra, missing or names)
            faults.append(f"names {_quoted(extra)}, which the kernel has not{suggestion}")
        is_typed = case.name == STATED
        subject = f"--signature of {case.kernel}" if is_typed else subject
        message = f"{subject} {' and '.join(faults)}"
        if config is not None and any(name in config.constexprs for name in missing):
            values = {**config.constexprs, **config.options}
            stated = ", ".join(f"{name}={value!r}" for name, value in values.items())
            if is_typed:
                defines = " ".join(f"-D {name}={value}" for name, value in values.items())
                raise CaseError(f"{message}; the kernel is autotuned", f"add {defines}")
            raise CaseError(
                f"{message}; the kernel is autotuned: state one config, e.g. {stated}",
                f"add 'constexprs': {dict(config.constexprs)!r}, "
                f"'options': {dict(config.options)!r} to the case",
            )
        constants = [p.name for p in parameters if p.constexpr and p.name in missing]
        defines = " ".join(f"-D {name}=VALUE" for name in constants) if is_typed else ""
        parameters_text = f"the kernel's parameters are {', '.join(names)}"
        raise CaseError(
            message, f"{parameters_text}; add {defines}" if defines else parameters_text
        )


def _constant(subject: str, case: Case, parameter: KernelParameter) -> Any:
    """The value of a constant argument: stated by the case, or the default.

    Like a launch, a case may make any argument constant whose value is None or 1.
    """
    if parameter.name not in case.constexprs:
        return parameter.default[0] if parameter.default is not None else None
    value = case.constexprs[parameter.name]
    if parameter.constexpr or value is None or (type(value) is int and value == 1):
        return value
    raise CaseError(
        f"{subject}: {parameter.name!r} is not a tl.constexpr parameter",
        "give its type under 'signature' instead",
    )


def _split_type(subject: str, case: Case, parameter: KernelParameter) -> tuple[str, str | None]:
    """The Triton type and the suffix (`16`, `1`; None without one) of an argument."""
    match = TYPE.fullmatch(case.signature[parameter.name])
    assert match is not None  # checked by `read_case`
    type_name, suffix = match["type"].strip(), match["suffix"]
    name = parameter.name
    if parameter.constexpr:
        raise CaseError(
            f"{subject}: {name!r} is a tl.constexpr parameter",
            "give its value under 'constexprs' instead",
        )
    if not is_type(type_name):
        suggestion = nearest_type(type_name)
        suggestion = f"; did you mean {suggestion}?" if suggestion is not None else ""
        raise CaseError(
            f"case {case.name!r}: argument {name} has the unknown type {type_name!r}{suggestion}",
            ADVICE,
        )
    if suffix is None:
        return type_name, None
    if suffix not in (DIVISIBLE, SUFFIX_ONE):
        raise CaseError(
            f"{subject}: {name!r} ends in :{suffix}",
            "Triton specialises on :16 (divisible by 16) and :1 only",
        )
    integer = INTEGER.fullmatch(type_name) is not None
    if not (integer or (suffix == DIVISIBLE and type_name.startswith("*"))):
        raise CaseError(
            f"{subject}: {name!r} is {type_name!r}, which Triton does not specialise",
            f"drop the :{suffix}",
        )
    if not parameter.specialize or (suffix == DIVISIBLE and not parameter.align):
        raise CaseError(
            f"{subject}: the kernel marks {name!r} do_not_specialize", f"drop the :{suffix}"
        )
    return type_name, suffix


def _text(subject: str, key: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise CaseError(f"{subject} needs {key!r}, a string", f"add {key!r} to the case")
    return value


def _signature(subject: str, raw: Mapping[str, Any]) -> dict[str, str]:
    signature = _table(subject, "signature", raw)
    for argument, text in signature.items():
        if not isinstance(text, str) or not TYPE.fullmatch(text):
            raise CaseError(
                f"{subject}: the type of {argument!r} is {text!r}",
                'write a Triton type such as "*fp16:16", "i32" or "fp32"',
            )
    return signature


def _table(subject: str, key: str, raw: Mapping[str, Any]) -> dict[str, Any]:
    table = raw.get(key, {})
    if not isinstance(table, dict) or not all(isinstance(k, str) for k in table):
        raise CaseError(f"{subject}: {key!r} must be a dict with string keys", f"mend {key!r}")
    return table


def checked_grid(subject: str, grid: Any) -> tuple[int, ...] | None:
    """A grid that a case states or its function gives.

    Raises:
        CaseError: it is not one to three positive numbers.
    """
    if grid is None:
        return None
    if (
        not isinstance(grid, (list, tuple))
        or not 1 <= len(grid) <= 3
        or not all(type(n) is int and n > 0 for n in grid)
    ):
        raise CaseError(f"{subject}: 'grid' is {grid!r}", "give one to three positive numbers")
    return tuple(grid)


def _archs(subject: str, archs: Any) -> tuple[str, ...] | None:
    if archs is None:
        return None
    if not isinstance(archs, (list, tuple)) or not all(isinstance(a, str) for a in archs):
        raise CaseError(
            f"{subject}: 'archs' is {archs!r}", 'give a list such as ["gfx942", "gfx9*"]'
        )
    return tuple(archs)


def _flag(subject: str, key: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise CaseError(f"{subject}: {key!r} is {value!r}", "give True or False")
    return value


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(repr(n) for n in names)


MAX_WAVES_PER_EU = 16
"""Waves that a SIMD of any supported target holds at most (16 on RDNA 2 and later, 8 on CDNA)."""


def check_options(case: Case, defaults: Mapping[str, Any]) -> None:
    """Checks the values of a case's options; unknown options are left to the backend's parser.

    `case`: the case; an option of None means Triton's default.

    Raises:
        CaseError: the value of an option is invalid.
    """
    for name, value in case.options.items():
        if name not in defaults or value is None:
            continue
        accepts, allowed = RANGES.get(name) or TYPES.get(type(defaults[name]), (_anything, ""))
        if not accepts(value):
            raise CaseError(
                f"case {case.name!r} of kernel {case.kernel!r}: option {name} is {value!r}, "
                f"not {allowed}",
                f"give {name} as {allowed}, or leave it out for Triton's {defaults[name]!r}",
            )


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _anything(value: Any) -> bool:
    return True


Rule = tuple[Callable[[Any], bool], str]
"""Whether a value is allowed, and the allowed values in words."""
RANGES: Mapping[str, Rule] = {
    "num_warps": (
        lambda value: _is_integer(value) and value > 0 and value & (value - 1) == 0,
        "a power of two (1, 2, 4, 8, ...)",
    ),
    "num_stages": (lambda value: _is_integer(value) and value >= 0, "a whole number from 0 on"),
    "waves_per_eu": (
        lambda value: _is_integer(value) and 0 <= value <= MAX_WAVES_PER_EU,
        f"a whole number from 0 (no request) to {MAX_WAVES_PER_EU}",
    ),
}
TYPES: Mapping[type, Rule] = {
    bool: (lambda value: isinstance(value, int) and value in (0, 1), "True or False"),
    int: (_is_integer, "a whole number"),
    float: (lambda value: _is_integer(value) or isinstance(value, float), "a number"),
    str: (lambda value: isinstance(value, str), "a string"),
}
