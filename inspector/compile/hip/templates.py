"""Template kernels of HIP sources: their parameters, and instances with other arguments."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

_KERNEL: Final = "__global__"
_NAME: Final = re.compile(r"(?P<name>\w{1,200})\s{0,9}\(")
_NEAR: Final = 400
"""Characters before and behind `__global__` in which its template and its name stand."""
_MOST_LOOKED_AT: Final = 1_000
_COMMA: Final = re.compile(r",(?![^<(]*[>)])")
"""Between arguments, not within one."""


class TemplateKernel(Struct, frozen=True):
    """A kernel that is a template: its name without namespaces, its parameters in order."""

    name: str
    parameters: tuple[str, ...]

    def instance(self, values: Mapping[str, Any]) -> str:
        """`gemm<128, N>`: with the values of those parameters that have one."""
        return written(self.name, [values.get(name, name) for name in self.parameters])


def template_kernels(source: str) -> Iterator[TemplateKernel]:
    """Yields the kernels of a source that are templates, as far as a look at the text tells."""
    at = source.find(_KERNEL)
    for _ in range(_MOST_LOOKED_AT):
        if at < 0:
            return
        before = re.split(r"[;{}]", source[max(0, at - _NEAR) : at])[-1]
        behind = source[at + len(_KERNEL) : at + _NEAR]
        _, template, listed = before.rpartition("template")
        names = (match["name"] for match in _NAME.finditer(behind))
        name = next((name for name in names if not name.startswith("__")), None)
        if template and name is not None:
            parts = _COMMA.split(listed.strip().removeprefix("<").rpartition(">")[0])
            words = [re.findall(r"\w+", part.partition("=")[0]) for part in parts]
            yield TemplateKernel(name, tuple(each[-1] for each in words if each))
        at = source.find(_KERNEL, at + 1)


def written(name: str, arguments: Iterable[Any]) -> str:
    """`gemm<128, true>`: an instance as C++ and reports write it."""
    texts = (str(value).lower() if isinstance(value, bool) else str(value) for value in arguments)
    return f"{name}<{', '.join(texts)}>"


def parts_of(instance: str) -> tuple[str, list[str]]:
    """The name and the template arguments of `ns::gemm<128, float>`; none of what has none."""
    name, _, arguments = instance.partition("<")
    if not arguments.endswith(">"):
        return instance, []
    return name, [part.strip() for part in _COMMA.split(arguments[:-1])]


def arguments_of(instance: str, templates: Sequence[TemplateKernel]) -> dict[str, str]:
    """Parameter -> argument of an instance of one of some templates; empty for others."""
    name, arguments = parts_of(instance)
    for template in templates:
        is_its = template.name == name.rpartition("::")[2]
        if is_its and arguments and len(template.parameters) == len(arguments):
            return dict(zip(template.parameters, arguments, strict=True))
    return {}


def with_arguments(
    instance: str, templates: Sequence[TemplateKernel], values: Mapping[str, Any]
) -> str:
    """An instance with other arguments, by the names of their parameters, as far as it has them."""
    own = arguments_of(instance, templates)
    if own.keys().isdisjoint(values):
        return instance
    return written(parts_of(instance)[0], [values.get(name, own[name]) for name in own])


def unspaced(instance: str) -> str:
    """An instance without blanks, which do not count."""
    return re.sub(r"\s+", "", instance)
