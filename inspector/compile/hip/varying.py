"""Compiles a HIP source with values for its macros and its kernels' template parameters."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ...base.errors import KinspectError
from ...isa.mangled import LEFT_OUT
from .options import HipOptions
from .source import HipCode, NoInstanceError, compiled_as_is, source_bytes
from .templates import TemplateKernel, arguments_of, template_kernels, unspaced, with_arguments


class Knobs(Struct, frozen=True):
    """The values that a source is compiled with, by what has their names.

    Args:
        macros: macros that the source leaves to the command line.
        arguments: parameters of its template kernels.
    """

    macros: Mapping[str, Any]
    arguments: Mapping[str, Any]
    templates: tuple[TemplateKernel, ...]

    @classmethod
    def of(cls, values: Mapping[str, Any], source: str, path: Path) -> Knobs:
        """Sorts values by the text of the source.

        Raises:
            KinspectError: the source has no use for one of them, or defines it itself.
        """
        templates = tuple(template_kernels(source))
        parameters = {name for template in templates for name in template.parameters}
        arguments = {
            name: value
            for name, value in values.items()
            if name in parameters and not _is_macro(name, source)
        }
        macros = {name: value for name, value in values.items() if name not in arguments}
        for name in macros:
            _check_macro(name, source, path)
        return cls(macros, arguments, templates)

    def with_names(self, kernel: str) -> str:
        """`gemm<BM, 64>`: an instance with the names of the arguments in their places."""
        return with_arguments(kernel, self.templates, {name: name for name in self.arguments})

    def is_of(self, name: str, kernel: str) -> bool:
        """Whether a value makes other code of a kernel: a macro, or an argument of its template."""
        return name in self.macros or name in arguments_of(kernel, self.templates)

    def has(self, kernel: str) -> bool:
        """Whether a kernel is an instance that one of the arguments is for."""
        return not self.arguments.keys().isdisjoint(arguments_of(kernel, self.templates))

    def is_complete(self, kernel: str) -> bool:
        """Whether it has one of the arguments, and is known with all that are not among them."""
        own = arguments_of(kernel, self.templates)
        rest = [value for name, value in own.items() if name not in self.arguments]
        return len(rest) < len(own) and not {LEFT_OUT, *own}.intersection(rest)

    def instance(self, kernel: str) -> str:
        """The instance of a kernel with these arguments; itself where it has none of them."""
        return with_arguments(kernel, self.templates, self.arguments)


def compiled(
    source: Path, arch: str, options: HipOptions, meanwhile: Callable[[], None] = lambda: None
) -> HipCode:
    """The assembly of a source for a target.

    Nothing of the source runs. The compiler is the one that the user named or that is installed;
    what the source includes must lie where files may name others, or in folders of the user's own
    flags. Instances with other template arguments take the place of those that they are made of:
    `names` has the kernels to look at.

    Raises:
        KinspectError: there is no compiler, a flag is refused, the source does not compile, or it
            has no use for one of the values.
    """
    if not options.values:
        return compiled_as_is(source, arch, options, meanwhile)
    text = source_bytes(source).decode(errors="replace")
    knobs = Knobs.of(options.values, text, source)
    options = replace(options, values=knobs.macros)
    options = replace(options, flags=options.defining, values={})
    if not knobs.arguments:
        return compiled_as_is(source, arch, options, meanwhile)
    own: list[str] = []
    try:
        own += compiled_as_is(source, arch, options, meanwhile).names.values()
        stated = {unspaced(kernel) for kernel in options.instances}
        kernels = [*options.instances, *(name for name in own if unspaced(name) not in stated)]
    except NoInstanceError:
        kernels = [template.instance({}) for template in knobs.templates]
    instances = dict.fromkeys(
        knobs.instance(kernel) for kernel in kernels if knobs.is_complete(kernel)
    )
    if not instances:
        raise KinspectError(
            f"--set {next(iter(knobs.arguments))}: {source} has no instance with it",
            f"name one: --instantiate '{knobs.templates[0].instance({})}' with values",
        )
    options = replace(options, instances=(*options.instances, *instances))
    code = compiled_as_is(source, arch, options, meanwhile)
    made = {unspaced(instance) for instance in instances}
    names = {
        symbol: name
        for symbol, name in code.names.items()
        if name not in own or unspaced(name) in made or not knobs.has(name)
    }
    return replace(code, names=names)


def _is_macro(name: str, source: str) -> bool:
    """Whether a source defines a name, or asks whether it is defined."""
    directive = rf"^[ \t]*#[ \t]*(?:define|undef|if|ifdef|ifndef|elif)\b.*\b{re.escape(name)}\b"
    return re.search(directive, source, re.M) is not None


def _check_macro(name: str, source: str, path: Path) -> None:
    """Raises an error if a source does not leave a macro to the command line."""
    if not re.search(rf"\b{re.escape(name)}\b", source):
        raise KinspectError(
            f"--set {name}: {path} does not use it",
            "name a macro that the source reads, or a parameter of its templates",
        )
    define = re.search(rf"^[ \t]*#[ \t]*define[ \t]+{re.escape(name)}\b", source, re.M)
    guard = re.search(
        rf"#[ \t]*(?:ifndef[ \t]+|if[ \t]+!\s*defined\(?\s*){re.escape(name)}\b", source
    )
    if define is not None and guard is None:
        line = source.count("\n", 0, define.start()) + 1
        raise KinspectError(
            f"--set {name}: {path}:{line} defines it itself", f"put #ifndef {name} around it"
        )
