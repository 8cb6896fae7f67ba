"""Recompiles a kernel in a child process, whose `main` is below.

Analysing the compiled kernel is hundreds of milliseconds of Python: in a thread of the UI it would
delay every key press. The process and its compilers end on SIGTERM and once its standard input is
closed, which happens however the UI ends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from ..inspector.capture.sweep_axes import Value
from ..inspector.model import KernelReport, Variant
from ..inspector.pipeline.jobs import Request
from .child_process import MessagingChild, serve

Work = tuple[KernelReport, Mapping[str, Value] | Variant, Request]
"""The kernel; its changed settings, or the variant to compile in its place; the kernel's run."""


class Recompile:
    """Compiles a kernel with changed settings in a child process.

    Args:
        changed: name of a setting -> its new value; or the changed variant.
    """

    def __init__(
        self, report: KernelReport, changed: Mapping[str, Value] | Variant, request: Request
    ) -> None:
        settings = changed if isinstance(changed, Variant) else dict(changed)
        work: Work = report, settings, request
        self._child = MessagingChild(__name__, work)

    def run(self, on_progress: Callable[[str], None]) -> KernelReport:
        """Compiles and analyses the kernel; to be called in a thread.

        Args:
            on_progress: called with the step that starts, such as "compiling".

        Raises:
            KinspectError: a setting cannot have its value, the compile failed or was stopped.
        """
        report: KernelReport | None = None
        for kind, payload in self._child.messages():
            if kind == "progress":
                on_progress(payload)
            elif kind == "report":
                report = payload
        assert report is not None
        return report

    def stop(self) -> None:
        """Ends the process and its compilers; may be called in any thread, and more than once."""
        self._child.stop()


def main() -> None:
    """Recompiles the kernel on standard input; the body of the child process."""
    serve(_recompile)


def _recompile(work: Work, send: Callable[[str, Any], None]) -> None:
    """Recompiles a kernel and sends its report."""
    from .recompiling import compiled_variant, compiler_for, recompiled

    report, changed, request = work
    if isinstance(changed, Variant):
        # As trials do, whose compile is in the store; a dump of passes would need another one.
        request = replace(request, passes=False)
    with compiler_for(request) as compiler:
        try:
            if isinstance(changed, Variant):
                send("progress", "compiling")
                new_report = compiled_variant(report, changed, request, compiler)
            else:
                new_report = recompiled(
                    report, changed, request, compiler, lambda text: send("progress", text)
                )
        except BaseException:
            compiler.abort()
            raise
    send("report", new_report)
