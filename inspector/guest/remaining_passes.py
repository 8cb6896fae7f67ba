"""Continues another compile: skips the passes on TTGIR that its module has seen."""

from __future__ import annotations

import functools
import importlib
import types
from collections.abc import Callable
from typing import Any

TTGIR, LLIR = "ttgir", "llir"


class RemainingPasses:
    """Leaves out the first passes of the stage that makes TTGIR.

    `passes`: how many the stage has, by the dump of a whole compile. If fewer functions are
    called, one of them adds several passes, and none can be skipped: an error.
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
                ttgir = self._run_remaining(make_ttgir, source, metadata)
                with open(path, "w", encoding="utf-8") as stream:
                    stream.write(str(ttgir))
                return make_llir(ttgir, metadata)

            stages[LLIR] = run

        backend_class.add_stages = add_changed_stages

    def _run_remaining(
        self, make_ttgir: Callable[[Any, Any], Any], source: Any, metadata: Any
    ) -> Any:
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
