"""Runs the rest of the passes on TTGIR over a module that another Triton's passes have changed.

What Triton hands to LLVM's code generator besides the LLVM IR: flags, features, attributes.
"""

from __future__ import annotations

import functools
import importlib
import types
from collections.abc import Callable
from typing import Any

TTGIR, LLIR = "ttgir", "llir"


class RemainingPasses:
    """Leaves out the first passes of the stage that makes TTGIR.

    `passes`: how many the stage has, by the dump of a whole compile. Another number means that some
    function adds several.
    """

    def __init__(self, skipped: int, passes: int) -> None:
        self._skipped = skipped
        self._passes = passes
        self._added: int | None = None

    def install(self, backend_class: Any, path: str) -> None:
        """Makes the stage behind TTGIR run the rest of the passes first.

        `path`: the file that gets the TTGIR as it is after them.
        """
        libtriton: Any = importlib.import_module("triton._C.libtriton")
        for module in (libtriton.passes, libtriton.amd.passes):
            self._wrap(module)
        add_stages = backend_class.add_stages

        @functools.wraps(add_stages)
        def add_changed_stages(backend: Any, stages: dict[str, Any], *args: Any, **kw: Any) -> None:
            add_stages(backend, stages, *args, **kw)
            make_ttgir, make_llir = stages[TTGIR], stages[LLIR]

            def run(source: Any, metadata: Any) -> Any:
                ttgir = self._rest(make_ttgir, source, metadata)
                with open(path, "w", encoding="utf-8") as stream:
                    stream.write(str(ttgir))
                return make_llir(ttgir, metadata)

            stages[LLIR] = run

        backend_class.add_stages = add_changed_stages

    def _rest(self, make_ttgir: Callable[[Any, Any], Any], source: Any, metadata: Any) -> Any:
        self._added = 0
        result = make_ttgir(source, metadata)
        added, self._added = self._added, None
        if added != self._passes:
            raise RuntimeError(f"{added} functions add the {self._passes} passes on TTGIR")
        return result

    def _wrap(self, module: types.ModuleType) -> None:
        for name in dir(module):
            member = getattr(module, name)
            if isinstance(member, types.ModuleType):
                self._wrap(member)
            elif name.startswith("add_"):
                setattr(module, name, self._counted(member))

    def _counted(self, add: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            if self._added is not None:
                self._added += 1
                if self._added <= self._skipped:
                    return None
            return add(*args)

        return run


GENERATORS = ("translate_to_asm", "translate_to_mir", "dump_sched_dag")
"""Functions of `libtriton.llvm` whose fourth and fifth arguments are the features and the flags."""
FEATURES, FLAGS = 3, 4
SEPARATE_GENERATOR = "compile_amdgpu"
"""The AMD backend's function that calls its own code generator, since 3.9: features are its fourth
argument, flags are named."""
ASSEMBLER = "assemble_amdgcn"
"""The function that assembles what the code generator made: features are its third argument. Of the
AMD backend since 3.9, of `libtriton.amd` before."""
ASSEMBLER_FEATURES = 2


class LlvmInputs:
    """Records flags, features and the kernel's attributes, and replaces flags and features.

    `replacement`: `flags` and `features` to use instead of the backend's; None for its own.
    """

    def __init__(self, replacement: dict[str, Any] | None = None) -> None:
        self.flags: list[str] | None = None
        self.features: str | None = None
        self.attributes: dict[str, str] = {}
        self._own_features = ""
        self._replacement = replacement or {}

    def describe(self) -> dict[str, Any] | None:
        """What was recorded; None if no code generator that we know of was called."""
        if self.flags is None:
            return None
        return {
            "flags": self.flags,
            "features": self.features or "",
            "attributes": dict(sorted(self.attributes.items())),
        }

    def observe(self) -> None:
        """Wraps the functions of this process's Triton."""
        libtriton: Any = importlib.import_module("triton._C.libtriton")
        llvm: Any = libtriton.llvm
        for name in GENERATORS:
            if hasattr(llvm, name):
                setattr(llvm, name, self._generator(getattr(llvm, name)))
        backend: Any = importlib.import_module("triton.backends.amd.compiler")
        if hasattr(backend, SEPARATE_GENERATOR):
            wrapped = self._separate_generator(getattr(backend, SEPARATE_GENERATOR))
            setattr(backend, SEPARATE_GENERATOR, wrapped)
        if "features" in self._replacement:
            for owner in (backend, libtriton.amd):
                if hasattr(owner, ASSEMBLER):
                    setattr(owner, ASSEMBLER, self._assembler(getattr(owner, ASSEMBLER)))
        self._observe_attributes(llvm.function)

    def _generator(self, generate: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            changed = list(args)
            changed[FEATURES], changed[FLAGS] = self._handed(args[FEATURES], args[FLAGS])
            return generate(*changed)

        return run

    def _separate_generator(self, generate: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(generate)
        def run(*args: Any, flags: list[str], **kwargs: Any) -> Any:
            changed = list(args)
            changed[FEATURES], flags = self._handed(args[FEATURES], flags)
            return generate(*changed, flags=flags, **kwargs)

        return run

    def _assembler(self, assemble: Callable[..., Any]) -> Callable[..., Any]:
        """Gives the assembler the code generator's features, beside those that it alone has."""

        def run(*args: Any) -> Any:
            own = [f for f in args[ASSEMBLER_FEATURES].split(",") if f]
            left = [f for f in own if f not in self._own_features.split(",")]
            changed = list(args)
            changed[ASSEMBLER_FEATURES] = ",".join(filter(None, [*left, self.features]))
            return assemble(*changed)

        return run

    def _handed(self, features: str, flags: list[str]) -> tuple[str, list[str]]:
        """The features and flags to hand on; records them."""
        self._own_features = features
        self.features = str(self._replacement.get("features", features))
        self.flags = list(self._replacement.get("flags", flags))
        return self.features, self.flags

    def _observe_attributes(self, function_class: Any) -> None:
        add, remove = function_class.add_fn_attr, getattr(function_class, "remove_fn_attr", None)

        def add_fn_attr(function: Any, name: str, value: str) -> Any:
            self.attributes[name] = value
            return add(function, name, value)

        def remove_fn_attr(function: Any, name: str) -> Any:
            self.attributes.pop(name, None)
            return remove(function, name) if remove is not None else None

        function_class.add_fn_attr = add_fn_attr
        if remove is not None:
            function_class.remove_fn_attr = remove_fn_attr
