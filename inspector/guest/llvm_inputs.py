"""What Triton hands to LLVM's code generator besides the LLVM IR: flags, features, attributes."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

_GENERATORS = ("translate_to_asm", "translate_to_mir", "dump_sched_dag")
"""Functions of `libtriton.llvm` that generate code."""
_FEATURES_ARGUMENT, _FLAGS_ARGUMENT = 3, 4
"""Which of their arguments, counted from 0, are the features and the flags."""
_SEPARATE_GENERATOR = "compile_amdgpu"
"""The AMD backend's function that calls its own code generator, since 3.9: features are its fourth
argument, flags are named."""
_ASSEMBLER = "assemble_amdgcn"
"""The function that assembles what the code generator made: features are its third argument. Of the
AMD backend since 3.9, of `libtriton.amd` before."""
_ASSEMBLER_FEATURES = 2


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

    def install(self) -> None:
        """Wraps the functions of this process's Triton."""
        libtriton: Any = importlib.import_module("triton._C.libtriton")
        llvm: Any = libtriton.llvm
        for name in _GENERATORS:
            if hasattr(llvm, name):
                setattr(llvm, name, self._generator(getattr(llvm, name)))
        backend: Any = importlib.import_module("triton.backends.amd.compiler")
        if hasattr(backend, _SEPARATE_GENERATOR):
            wrapped = self._separate_generator(getattr(backend, _SEPARATE_GENERATOR))
            setattr(backend, _SEPARATE_GENERATOR, wrapped)
        if "features" in self._replacement:
            for owner in (backend, libtriton.amd):
                if hasattr(owner, _ASSEMBLER):
                    setattr(owner, _ASSEMBLER, self._assembler(getattr(owner, _ASSEMBLER)))
        self._observe_attributes(llvm.function)

    def _generator(self, generate: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            changed = list(args)
            changed[_FEATURES_ARGUMENT], changed[_FLAGS_ARGUMENT] = self._replaced(
                args[_FEATURES_ARGUMENT], args[_FLAGS_ARGUMENT]
            )
            return generate(*changed)

        return run

    def _separate_generator(self, generate: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(generate)
        def run(*args: Any, flags: list[str], **kwargs: Any) -> Any:
            changed = list(args)
            changed[_FEATURES_ARGUMENT], flags = self._replaced(args[_FEATURES_ARGUMENT], flags)
            return generate(*changed, flags=flags, **kwargs)

        return run

    def _assembler(self, assemble: Callable[..., Any]) -> Callable[..., Any]:
        """Gives the assembler the code generator's features, beside those that it alone has."""

        def run(*args: Any) -> Any:
            own = [f for f in args[_ASSEMBLER_FEATURES].split(",") if f]
            left = [f for f in own if f not in self._own_features.split(",")]
            changed = list(args)
            changed[_ASSEMBLER_FEATURES] = ",".join(filter(None, [*left, self.features]))
            return assemble(*changed)

        return run

    def _replaced(self, features: str, flags: list[str]) -> tuple[str, list[str]]:
        """Records features and flags, and returns those to use instead."""
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
