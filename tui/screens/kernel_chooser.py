"""The dialogue in which the user chooses one of the session's kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...inspector.explain.view import configuration, worst_first
from ...inspector.model import KernelReport
from ..session import Session
from .list_chooser import Choice, ListChooser


def worst_kernel(
    session: Session, is_preferred: Callable[[KernelReport], bool] = lambda kernel: True
) -> str | None:
    """The id of the kernel with the worst findings; None if there is no kernel."""
    kernels = worst_first([entry.report for entry in session.ordered()])
    return next((k.id for k in kernels if is_preferred(k)), kernels[0].id if kernels else None)


def kernel_chooser(
    kernels: Sequence[KernelReport],
    current: str | None,
    mark: Callable[[KernelReport], str] = lambda kernel: "",
) -> ListChooser:
    """A list of kernels; its result is the chosen kernel's id."""

    def choice(kernel: KernelReport) -> Choice:
        text = f"{mark(kernel):<1} {kernel.name}  {kernel.arch or '-'}  {configuration(kernel)}"
        end = 2 + len(kernel.name)
        spans = ((0, 1, "literal"), (2, end, "name"), (end, len(text), "comment"))
        return Choice(kernel.id, text, spans, f"{text} {kernel.id}")

    return ListChooser("kernel", [choice(kernel) for kernel in kernels], current)
