"""What the agent format names as the next step: commands of a shell, or calls of MCP tools.

An agent that was answered by the server need not have a shell.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from msgspec import Struct

_COMPILED = (".py", ".ttir", ".ttgir", ".hip", ".cu")
"""Endings of files of which `kinspect try` can compile other versions."""


class AgentSubject(Struct, frozen=True):
    """The kernel that lines are about.

    Args:
        label: name and case, as --kernel takes it.
        place: where it begins in the user's source; empty where that is not known.
        launch: where its options and constexprs are passed; empty where that is not known.
    """

    id: str
    label: str
    arch: str | None
    path: str
    place: str
    launch: str = ""

    @property
    def is_compiled(self) -> bool:
        """Whether other versions of it can be compiled."""
        return self.path.endswith(_COMPILED)

    @property
    def heading(self) -> str:
        """The line that names it."""
        place = f" {self.place}" if self.place else ""
        return f"kernel {self.id} {self.label} {self.arch or 'unknown target'}{place}"


Argument = str | bool | Sequence[str]
SIGNATURE = "signature"
"""The argument with the types of a kernel that its file does not launch."""


class ShellLaunch(Struct, frozen=True):
    """The words of a command line by which a target's kernels are found and compiled.

    Args:
        options: --signature and -D, --call, --workgroup, --set, with their values.
        has_signature: whether a signature names the kernel, which has no case then.
        passed: --args with its value, by which the launch of a file of code is timed.
    """

    options: tuple[str, ...] = ()
    argv: tuple[str, ...] = ()
    has_signature: bool = False
    passed: tuple[str, ...] = ()


_PLAIN = ShellLaunch()


class ShellCalls:
    """Commands of `kinspect`."""

    def __init__(self, launch: ShellLaunch = _PLAIN) -> None:
        self._launch = launch

    def show(self, identity: str) -> str:
        return f"kinspect show {shlex.quote(identity)}"

    def rest_of(self, identity: str) -> str:
        return f"kinspect show {shlex.quote(identity)} --details"

    def analyze(self, subject: AgentSubject) -> str:
        return self._command("analyze", subject, *self._launch.passed)

    def report(self, subject: AgentSubject) -> str:
        return self._command("analyze", subject, *self._launch.passed, "--format", "agent")

    def code(self, subject: AgentSubject) -> str:
        return self._command("show", subject, "--isa")

    def code_of_part(self, identity: str, kernel_id: str, first: int, last: int) -> str:
        return f"kinspect show {shlex.quote(identity)} --isa"

    def registers(self, subject: AgentSubject) -> str:
        return self._command("registers", subject)

    def try_cures(self, subject: AgentSubject, rule: str | None = None) -> str:
        rules = ("--for", rule) if rule is not None else ()
        return self._command("try", subject, *self._launch.passed, *rules)

    def trials_in_full(self, subject: AgentSubject) -> str:
        return self._command("try", subject, *self._launch.passed, "--format", "json")

    def comparison_in_full(self) -> str:
        return "--format json"

    def _command(self, name: str, subject: AgentSubject, *more: str) -> str:
        launch = self._launch
        label = subject.label.partition("[")[0] if launch.has_signature else subject.label
        path = f"./{subject.path}" if subject.path.startswith("-") else subject.path
        words = ["kinspect", name, path, "--kernel", label]
        if subject.arch is not None and subject.is_compiled:
            words += ["--arch", subject.arch]
        words += (*launch.options, *more)
        if launch.argv:
            words += ["--", *launch.argv]
        return shlex.join(words)


class ToolCalls:
    """Calls of the tools of `kinspect mcp`, `show(id="f557ab")`."""

    def __init__(self, launch: Mapping[str, Argument] = MappingProxyType({})) -> None:
        self._launch = launch

    def show(self, identity: str) -> str:
        return _call("show", {"id": identity})

    def rest_of(self, identity: str) -> str:
        return _call("show", {"id": identity, "details": True})

    def analyze(self, subject: AgentSubject) -> str:
        return _call("analyze", self._selection(subject))

    def report(self, subject: AgentSubject) -> str:
        return self.analyze(subject)

    def code(self, subject: AgentSubject) -> str:
        return _call("code", {"id": subject.id})

    def code_of_part(self, identity: str, kernel_id: str, first: int, last: int) -> str:
        return f"code(id={json.dumps(kernel_id)}, first={first}, last={last})"

    def registers(self, subject: AgentSubject) -> None:
        return None

    def try_cures(self, subject: AgentSubject, rule: str | None = None) -> str:
        rules: dict[str, Argument] = {} if rule is None else {"rules": (rule,)}
        return _call("try_cures", {**self._selection(subject), **rules})

    def trials_in_full(self, subject: AgentSubject) -> None:
        return None

    def comparison_in_full(self) -> None:
        return None

    def _selection(self, subject: AgentSubject) -> dict[str, Argument]:
        arch: dict[str, Argument] = {}
        if subject.arch is not None and subject.is_compiled:
            arch = {"arch": subject.arch}
        label = subject.label
        if SIGNATURE in self._launch:  # names its kernels without a case
            label = label.partition("[")[0]
        return {"target": subject.path, "kernel": label, **arch, **self._launch}


AgentCalls = ShellCalls | ToolCalls
"""How the next steps are named: opening an id, printing the rest of a loop, and so on; None where
there is no such step."""
SHELL: AgentCalls = ShellCalls()
TOOLS: AgentCalls = ToolCalls()


def _call(tool: str, arguments: Mapping[str, Argument]) -> str:
    pairs = (f"{name}={_literal(value)}" for name, value in arguments.items())
    return f"{tool}({', '.join(pairs)})"


def _literal(value: Argument) -> str:
    if isinstance(value, bool):
        return str(value)
    return json.dumps(value, ensure_ascii=False)
