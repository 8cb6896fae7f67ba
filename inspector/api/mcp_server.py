"""`kinspect mcp`: the Python interface as tools of a Model Context Protocol server, over stdio.

For coding agents that do not run a shell. Results are the texts of the agent format; what they
name by an id, `show` opens, and `kinspect show` in a shell. The server itself writes nothing but
kinspect's own cache.
Scripts run in processes of their own, as for `kinspect analyze` and `emulate`, and may do there
what scripts do; only those below the server's folder are taken.
"""

from __future__ import annotations

import io
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from ..base import named_files
from ..base.errors import KinspectError
from ..base.limits import TRY_SECONDS
from ..base.version import VERSION
from ..capture.resolving import split
from ..capture.targets import confined
from ..explain import items
from ..explain.items import NamedItem, NamedKey, item_of, keys_of, located
from ..formats import agent, diff_agent, emulation_agent, item_agent, lint_agent, try_agent
from ..formats.agent_calls import SIGNATURE, TOOLS, AgentCalls, Argument, ToolCalls
from ..lint.lint_results import CheckedKernel
from ..lint.packs import DEFAULT_PACK
from ..model import Finding, KernelReport, Report
from ..pipeline import printed_ids
from .analysing import analyze
from .comparing import diff, sweep
from .executing import emulate, occupancy
from .linting import lint
from .notebook import text_of
from .trying import try_

MOST_REPORTS = 32
"""Reports that are kept for `show`."""
MOST_LINES = 400
"""Lines of code in one answer."""
_INSTRUCTIONS = (
    "kinspect says what the compiler made of Triton and HIP kernels on AMD GPUs, without a GPU."
    " Begin with `analyze` of the file that launches or defines the kernel; the worst finding comes"
    " first. `try_cures` compiles its cures; `show` opens any id that a tool printed."
    " Where a message names an option (--arch), the tool's argument of that name is meant."
)
_STAGES = ("amdgcn", "ttgir", "ttir", "llir")
Tool = TypeVar("Tool", bound=Callable[..., str])


def _within_root(tool: Tool) -> Tool:
    """A tool of `Tools` that takes no file from outside of the server's folder, named or found."""

    @wraps(tool)
    def call(tools: Tools, *args: Any, **named: Any) -> str:
        with confined(tools.root):
            return tool(tools, *args, **named)

    return call  # type: ignore[return-value]


Axes = Mapping[str, Sequence[int | float | bool | str]]


class ScriptFailedError(Exception):
    """A script did not pass: the answer of `emulate`, marked as an error."""


class _Launch(Struct, frozen=True):
    """How the kernels of a file are found, for those that it does not launch by itself.

    Args:
        signature: types of the arguments; None where the file launches its kernels.
        argv: arguments of the script.
    """

    signature: str | None
    argv: tuple[str, ...]

    @property
    def options(self) -> dict[str, Any]:
        """Arguments of the Python interface."""
        return {"signature": self.signature, "argv": self.argv}

    @property
    def words(self) -> tuple[str, ...]:
        """The end of a command line."""
        stated = ("--signature", self.signature) if self.signature else ()
        return (*stated, *(("--", *self.argv) if self.argv else ()))

    @property
    def calls(self) -> AgentCalls:
        """The next steps, which find the same kernels."""
        launch: dict[str, Argument] = {}
        if self.signature:
            launch[SIGNATURE] = self.signature
        if self.argv:
            launch["argv"] = self.argv
        return ToolCalls(launch)


class Tools:
    """The tools of a server; each returns text, and raises KinspectError with what is wrong.

    Only files below the working folder are taken. Paths are relative to it, so that ids are those
    of the command line there.
    """

    def __init__(self) -> None:
        self.root = Path.cwd()
        self._reports: list[tuple[Report, AgentCalls]] = []
        self._lock = threading.Lock()

    @_within_root
    def analyze(
        self,
        target: str,
        kernel: str | None = None,
        arch: str | None = None,
        signature: str | None = None,
        argv: list[str] | None = None,
        details: bool = False,
    ) -> str:
        """Report how long kernels take, why, and which changes would make them faster.

        Args:
            target: a .py file (a script that launches kernels, or one that defines them), an .s,
                .amdgcn, .hsaco, .ttir or .ttgir file, or a folder.
            kernel: only kernels of this name; with shell wildcards.
            arch: the GPU, such as gfx942; default: what the file says, else gfx942.
            signature: types of the kernel's arguments where the file launches nothing, such as
                "*fp16:16, *fp16:16, i32, 128": pointers with their alignment, constexprs by value.
            argv: arguments of the script.
            details: all findings, loops and wasteful accesses, in 2,000 tokens a kernel at most.
        """
        path, launch = self._path(target), _Launch(signature, tuple(argv or ()))
        report = analyze(path, arch=arch, kernel=kernel, **launch.options).report
        self._keep(report, launch.calls)
        words = (*_words(path, arch, kernel), *launch.words)
        printed_ids.record("analyze", words, report.kernels)
        return text_of(lambda stream: agent.write(report, stream, launch.calls, whole=details))

    @_within_root
    def lint(
        self,
        target: str,
        kernel: str | None = None,
        arch: str | None = None,
        select: list[str] | None = None,
        signature: str | None = None,
        argv: list[str] | None = None,
    ) -> str:
        """Apply rules to kernels: only what they find, worst first.

        Args:
            target: as for analyze.
            kernel: as for analyze.
            arch: as for analyze.
            select: ids, names or tags of the only rules to ask; default: all stable ones.
            signature: as for analyze.
            argv: as for analyze.
        """
        path, launch = self._path(target), _Launch(signature, tuple(argv or ()))
        # In full: `show` runs no script.
        analysis = analyze(path, arch=arch, kernel=kernel, **launch.options)
        judged = lint(analysis, select=select or ()).report
        self._keep(_with_findings(analysis.report, judged.kernels), launch.calls)
        words = _words(path, arch, kernel)
        if select:  # with the rules named, a pyproject.toml changes nothing
            words += ("--rules", DEFAULT_PACK, "--select", ",".join(select))
        words += launch.words
        printed_ids.record("lint" if select else "analyze", words, judged.kernels)
        return text_of(lambda stream: lint_agent.write(judged, stream, launch.calls))

    def show(self, id: str, details: bool = False) -> str:
        """Open an id that a tool of this server printed since it started: of a finding, kernel,
        loop (x.L0) or access (x.M41).

        Args:
            id: as printed.
            details: of a loop all metrics, also those that are not known.
        """
        item = items.parsed(id)
        if item is None:
            raise KinspectError(
                f"{id!r} is not an id", "name one that analyze or lint printed: f557ab"
            )
        for kernel, named, calls in self._named(id, item):
            named_item = item_of(id, item, named.fingerprint, kernel, calls.show)
            return _item_text(named_item, details, calls)
        raise KinspectError(
            f"{id}: none of the last reports has it", "analyze the kernel again for present ids"
        )

    def code(self, id: str, stage: str = "amdgcn", first: int = 1, last: int | None = None) -> str:
        """Print lines of a kernel's code, with their numbers.

        Args:
            id: of a kernel that `analyze` or `lint` printed.
            stage: amdgcn, ttgir, ttir or llir.
            first: the first line, from 1.
            last: the last line; at most 400 lines are printed.
        """
        item = items.parsed(id)
        if stage not in _STAGES:
            raise KinspectError(f"no stage {stage!r}", f"name one of {', '.join(_STAGES)}")
        for kernel, named, _ in self._named(id, item) if item is not None else ():
            if named.fingerprint is None:
                return _code(kernel, stage, first, last)
        raise KinspectError(
            f"{id}: no kernel of the last reports", "analyze it again for its present id"
        )

    @_within_root
    def try_cures(
        self,
        target: str,
        kernel: str | None = None,
        arch: str | None = None,
        rules: list[str] | None = None,
        budget_seconds: float = TRY_SECONDS,
        signature: str | None = None,
        argv: list[str] | None = None,
    ) -> str:
        """Compile the changes that findings suggest (options, tiles, knobs); report their effect.

        Args:
            target: a .py file or .ttir, as for analyze.
            kernel: as for analyze.
            arch: as for analyze.
            rules: only findings of these rules, such as KI001.
            budget_seconds: that all trials may take; what is done by then is told.
            signature: as for analyze.
            argv: as for analyze.
        """
        path, launch = self._path(target), _Launch(signature, tuple(argv or ()))
        run = try_(
            path,
            arch=arch,
            kernel=kernel,
            rules=rules or (),
            budget=budget_seconds,
            **launch.options,
        ).run
        kernels = tuple(trials.kernel for trials in run.kernels)
        self._keep(Report(path, {}, kernels, ()), launch.calls)
        words = (*_words(path, arch, kernel), *_options("--for", rules), *launch.words)
        printed_ids.record("try", words, kernels)
        return text_of(lambda stream: try_agent.write(run, stream, launch.calls))

    @_within_root
    def compare(
        self, before: str, after: str, kernel: str | None = None, arch: str | None = None
    ) -> str:
        """Compare two versions of kernels: which figures are better, worse or changed.

        Args:
            before: a file as for analyze.
            after: another.
            kernel: as for analyze.
            arch: as for analyze.
        """
        report = diff(self._path(before), self._path(after), kernel=kernel, arch=arch).report
        return text_of(lambda stream: diff_agent.write(report, stream, TOOLS))

    @_within_root
    def sweep(
        self, target: str, axes: Axes, kernel: str | None = None, arch: str | None = None
    ) -> str:
        """Compile a kernel in many configurations and compare code and predicted times.

        Args:
            target: as for analyze.
            axes: values of options and constexprs: {"num_warps": [4, 8], "BLOCK_M": [64, 128]}.
            kernel: as for analyze.
            arch: as for analyze.
        """
        return str(sweep(self._path(target), axes=axes, kernel=kernel, arch=arch))

    @_within_root
    def emulate(
        self,
        script: str,
        argv: list[str] | None = None,
        arch: str = "gfx942",
        sample: int | None = None,
    ) -> str:
        """Run a script on an emulated GPU, on the CPU: results, races, faults, bad addresses.

        It is an error if the script ends with a status other than 0 (an assert that fails, a failed
        test), or a kernel did what it must not: the first line says which.

        Args:
            script: a .py file that launches kernels, or FILE::TEST.
            argv: its arguments; of tests those of pytest that select, such as ["-k", "small"].
            arch: the emulated GPU.
            sample: workgroups of each launch that are executed, for counts without results;
                default: all, which takes long for large launches.
        """
        run = emulate(self._path(script), argv or (), arch=arch, sample=sample)
        text = text_of(lambda stream: emulation_agent.write(run.result, stream))
        if not run.passed:
            raise ScriptFailedError(text)
        return text

    def occupancy(
        self,
        arch: str,
        vgprs: int,
        agprs: int = 0,
        lds_bytes: int = 0,
        waves_per_workgroup: int = 4,
    ) -> str:
        """Say how many waves are resident for given registers and LDS, and what limits them.

        Args:
            arch: gfx name.
            vgprs: of a wave.
            agprs: of a wave.
            lds_bytes: of a workgroup.
            waves_per_workgroup: num_warps in Triton.
        """
        told = occupancy(
            arch,
            vgprs=vgprs,
            agprs=agprs,
            lds_bytes=lds_bytes,
            waves_per_workgroup=waves_per_workgroup,
        )
        return f"{told.waves_per_eu} waves/SIMD, limited by {told.limiter}"

    def _path(self, target: str) -> str:
        """A target, relative to the server's folder."""
        path, rest = split(target)
        place = (self.root / path).resolve()
        if not place.is_relative_to(self.root):
            raise KinspectError(
                f"{path} is not below {self.root}", "start the server with --root FOLDER"
            )
        name = str(place.relative_to(self.root))
        if name.startswith("-"):  # no option where `kinspect show ID` works the report out again
            name = f"./{name}"
        return name if rest is None else f"{name}::{rest}"

    def _keep(self, report: Report, calls: AgentCalls) -> None:
        with self._lock:
            self._reports = [(report, calls), *self._reports[: MOST_REPORTS - 1]]

    def _named(
        self, id: str, item: items.ItemId
    ) -> Iterator[tuple[KernelReport, NamedKey, AgentCalls]]:
        """The kernels of the last reports that an id is about, the newest first.

        With each its keys and what names the next steps.
        """
        with self._lock:
            reports = list(self._reports)
        for report, calls in reports:
            named = located(id, item, [keys_of(kernel) for kernel in report.kernels])
            if named is not None:
                yield report.kernels[named.position], named, calls


def serve(root: Path) -> None:
    """Serves the tools over stdin and stdout until the client closes them.

    Args:
        root: the folder whose files may be analysed.

    Raises:
        KinspectError: the SDK of the protocol is not installed.
    """
    try:
        from mcp.server.mcpserver import MCPServer
        from mcp.server.mcpserver.exceptions import ToolError
    except ImportError:
        raise KinspectError(
            "the Model Context Protocol's SDK is not installed", "pip install 'kinspect[mcp]'"
        ) from None
    from mcp.types import ToolAnnotations

    try:
        os.chdir(root)
    except OSError as error:
        raise KinspectError(
            f"{root}: {error.strerror}", "name the folder of your kernels"
        ) from None
    named_files.confine(Path())
    tools = Tools()
    server = MCPServer("kinspect", instructions=_INSTRUCTIONS, version=VERSION, log_level="ERROR")
    turn = threading.Lock()  # a compile takes all cores

    def told(tool: Tool) -> Tool:
        """A tool whose errors are answers to the client."""

        @wraps(tool)
        def call(*args: Any, **named: Any) -> str:
            try:
                with turn:
                    return tool(*args, **named)
            except (KinspectError, ScriptFailedError) as error:
                raise ToolError(str(error)) from None

        return call  # type: ignore[return-value]

    # What the other tools do a script of the user's decides, which they run.
    reading: tuple[Callable[..., str], ...] = (tools.show, tools.code, tools.occupancy)
    running: tuple[Callable[..., str], ...] = (
        *(tools.analyze, tools.lint, tools.try_cures),
        *(tools.compare, tools.sweep, tools.emulate),
    )
    reads_only = ToolAnnotations(read_only_hint=True, open_world_hint=False)
    for tool in (*running, *reading):
        hints = reads_only if tool in reading else None
        server.add_tool(told(tool), annotations=hints, structured_output=False)
    _take_over_streams()
    server.run("stdio")


def _take_over_streams() -> None:
    """Leaves the protocol's streams to this process alone.

    What scripts and compilers print goes to stderr, and they read nothing.
    """
    own_input, own_output = os.dup(0), os.dup(1)
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    sys.stdin = io.TextIOWrapper(os.fdopen(own_input, "rb"), encoding="utf-8")
    sys.stdout = io.TextIOWrapper(os.fdopen(own_output, "wb"), encoding="utf-8")


def _words(path: str, arch: str | None, kernel: str | None) -> tuple[str, ...]:
    """The words of a command line that selects the same kernels."""
    named = (("--arch", arch), ("--kernel", kernel))
    return (path, *(word for option, value in named if value for word in (option, value)))


def _options(name: str, values: Sequence[str] | None) -> Iterator[str]:
    """Words of a command line that give an option several times."""
    for value in values or ():
        yield from (name, value)


def _findings_of(kernel: CheckedKernel) -> tuple[Finding, ...]:
    """All that rules say of a kernel; what a comment leaves out too."""
    return (*kernel.findings, *(left_out.finding for left_out in kernel.suppressed))


def _with_findings(report: Report, judged: Sequence[CheckedKernel]) -> Report:
    """A report with what a lint run says of its kernels."""
    findings = {kernel.id: _findings_of(kernel) for kernel in judged}
    return replace(
        report,
        kernels=tuple(
            replace(kernel, findings=findings.get(kernel.id, kernel.findings))
            for kernel in report.kernels
        ),
    )


def _item_text(named: NamedItem, details: bool, calls: AgentCalls) -> str:
    """What an id names, as `kinspect show --format agent` has it."""
    rule = None
    if named.findings:
        from ..pipeline.analysis import recommended_pack

        rule_id = named.findings[0].rule
        rules = (rule.text for rule in recommended_pack().rules)
        rule = next((text for text in rules if text.id == rule_id), None)
    return text_of(
        lambda stream: item_agent.write(named, rule, stream, details=details, calls=calls)
    )


def _code(kernel: KernelReport, stage: str, first: int, last: int | None) -> str:
    """Numbered lines of one of a kernel's texts."""
    from ..explain.code import texts as code_texts
    from ..explain.code.reading import reading_of

    texts = code_texts.texts_of(kernel)
    if stage == "ttir":
        texts = code_texts.with_ttir(texts, kernel)
    elif stage == "amdgcn" and stage not in texts.lines:
        texts = reading_of(kernel, texts).texts  # a code object, disassembled
    if stage not in texts.lines:
        raise KinspectError(f"{kernel.name} has no {stage}", "see the stages of its file's kind")
    lines = texts.lines[stage]
    if not 1 <= first <= len(lines):
        raise KinspectError(f"there is no line {first}", f"{stage} has {len(lines)} lines")
    end = min(last or len(lines), len(lines), first + MOST_LINES - 1)
    numbered = [f"{number} {lines[number - 1]}" for number in range(first, end + 1)]
    rest = len(lines) - end
    return "\n".join([*numbered, *([f"... {rest} more lines"] if rest else [])])
