"""The results of the emulating functions of the Python interface."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..explain.view import plural
from .notebook import Shown, text_of

if TYPE_CHECKING:
    from ..pipeline.emulated_code import BufferState, CodeResult
    from ..pipeline.emulation import EmulationResult, ScriptFailure, UnjudgedCheck
    from ..pipeline.emulation_profile import EmulationFinding, EmulationProfile


class Emulation(Shown):
    """What a script did on an emulated GPU, and whether it passed.

    Args:
        result: of the run.
    """

    def __init__(self, result: EmulationResult) -> None:
        self.result = result

    def __repr__(self) -> str:
        verdict = "passed" if self.passed else "FAILED"
        launches = plural(self.launches, "launch")
        findings = plural(len(self.findings), "finding")
        return f"<{verdict}: status {self.status}, {findings}, {launches}>"

    @property
    def passed(self) -> bool:
        """Whether the script's status is 0, and all kernels ended and did nothing wrong.

        What was not asserted was not checked; where `launches` is 0, nothing was.
        """
        return self.exit_status == 0

    @property
    def status(self) -> int:
        """The script's exit status; of a signal 128 plus its number."""
        return self.result.status

    @property
    def exit_status(self) -> int:
        """That of `kinspect emulate`: 1 where a script succeeded with findings, for example."""
        return self.result.exit_status

    @property
    def failures(self) -> tuple[ScriptFailure, ...]:
        """The exception that ended the script, or the tests that failed.

        Of each: `error`, `file`, `line`, `traceback` (its end) and `test` (None of a script).
        """
        return self.result.failures

    @property
    def findings(self) -> tuple[EmulationFinding, ...]:
        """Races, accesses that miss and what else kernels must not do, of all kernels.

        Of each: `kind`, `detail`, `instruction`, `file` and `source_line`.
        """
        return self.result.findings

    @property
    def kernels(self) -> tuple[EmulationProfile, ...]:
        """A profile for each kernel that was launched, with its own `findings`."""
        return self.result.kernels

    @property
    def launches(self) -> int:
        """Launches in all."""
        return self.result.launches

    @property
    def complete(self) -> bool:
        """Whether the script came to its own end."""
        return self.result.complete

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks on the run."""
        return self.result.notes

    @property
    def unjudged(self) -> tuple[UnjudgedCheck, ...]:
        """Checks of the script that could mean nothing, for example of times."""
        return self.result.unjudged

    def to_dict(self) -> dict[str, Any]:
        """The run as JSON values, as `kinspect emulate --format json` has it."""
        from ..formats import emulation

        return emulation.fields(self.result)

    def __str__(self) -> str:
        from ..formats import emulation_agent

        return text_of(lambda stream: emulation_agent.write(self.result, stream))


class CodeEmulation(Shown):
    """What a kernel of assembly or a code object did on an emulated GPU.

    Args:
        result: of the launch.
    """

    def __init__(self, result: CodeResult) -> None:
        self.result = result

    def __repr__(self) -> str:
        verdict = "passed" if self.passed else "FAILED"
        return f"<{verdict}: {self.profile.name}, {plural(len(self.findings), 'finding')}>"

    @property
    def passed(self) -> bool:
        """Whether the kernel did nothing that it must not."""
        return not self.findings

    @property
    def findings(self) -> tuple[EmulationFinding, ...]:
        """Races, accesses that miss and what else a kernel must not do."""
        return self.profile.findings

    @property
    def profile(self) -> EmulationProfile:
        """What was executed."""
        return self.result.profile

    @property
    def buffers(self) -> tuple[BufferState, ...]:
        """The buffers after the launch."""
        return self.result.buffers

    @property
    def printed(self) -> tuple[tuple[bool, str], ...]:
        """What the kernel printed: whether to standard error, and the text."""
        return self.result.printed

    def to_dict(self) -> dict[str, Any]:
        """The launch as JSON values, as `kinspect emulate --format json` has it."""
        from ..formats import emulation

        return emulation.code_fields(self.result)

    def __str__(self) -> str:
        from ..formats import emulation_agent

        return text_of(lambda stream: emulation_agent.write_code(self.result, stream))
