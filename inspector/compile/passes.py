"""Splits an MLIR pass dump (`MLIR_ENABLE_DUMP=1`) into its passes.

Triton dumps the module before each pass, never after the last: what a pass made of it is the state
before the next one. The file may hold several compiles, one after the other.
"""

from __future__ import annotations

import hashlib
import mmap
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from ..base.errors import KinspectError
from .mlir_text import canonical, strip_locations, unified_diff

ANY_HEADER = re.compile(rb"^// -----// IR Dump [^\n]*//----- //$", re.M)
HEADER = re.compile(
    r"// -----// IR Dump Before (?P<name>\S+?)"
    # Triton 3.9 and later: `Class: cli{options}`; before that `Class (cli)`.
    r"(?:: (?P<cli>[^\s{]+)(?P<options>\{.*\})?| \((?P<older_cli>[^)]*)\))?"
    r"(?: \('(?P<op>[^']*)' operation(?:: (?P<symbol>@[^)]*))?\))?"
    r" //----- //"
)
# A definition, not a declaration: its line ends by opening the body.
KERNEL = re.compile(
    rb"^ *(?:tt|llvm)\.func (?:public )?@(?P<name>\"[^\"\n]*\"|[\w$.-]+)\([^\n]*\{$", re.M
)
STAGES = ("ttir", "ttgir", "llir")
TTIR_OPENERS = frozenset({"inline"})
TTGIR_OPENERS = frozenset({"convert-triton-to-tritongpu"})
LLIR_OPENERS = frozenset(
    {
        "tritonamdgpu-update-async-wait-count",  # since 3.5
        "optimize-amd-lds-usage",  # 3.4
        "decompose-unsupported-amd-conversions",  # before
        "convert-scf-to-cf",  # the first one that every version has
    }
)
"""Passes that Triton's AMD backend begins each stage with."""
CONVERSION = re.compile(rb"\b(?:ttg|triton_gpu)\.convert_layout\b")
"""An operation that moves a tile from one layout to another; its dialect had another name."""
PAGE = 4096
"""By how much the noted length of a dump may fall short: its stream's buffer."""


class CompilerPass(Struct, frozen=True):
    """One pass of a dump.

    Args:
        index: position in the dump, from 0.
        name: class, e.g. `TritonGPUCoalesce`.
        cli: name on the command line, e.g. `tritongpu-coalesce`.
        options: its options as printed, without braces.
        op: operation it runs on: `builtin.module`, `tt.func`.
        stage: `ttir`, `ttgir` or `llir`.
        run: ordinal of the compile within the file.
        kernel: the first public function with a body; None where the dump has none.
        start: offset of the state before it, in bytes.
        size: length of that state, in bytes.
        changed: whether it changed the module, debug locations and value names aside; None for
            the last pass of a compile, whose result is not in the dump.
        conversions: `convert_layout` operations in the state before it; None where `changed` was
            not worked out either.
    """

    index: int
    name: str
    cli: str
    options: str
    op: str
    function: str | None
    stage: str
    run: int
    kernel: str | None
    start: int
    size: int
    changed: bool | None = None
    conversions: int | None = None


class PassDump(Struct, frozen=True):
    """A dump file and its passes. Texts are read from the file when asked for."""

    path: Path
    passes: tuple[CompilerPass, ...]

    def text(self, index: int) -> str:
        """The module before pass `index`, as dumped."""
        dumped = self.passes[index]
        with self.path.open("rb") as stream:
            stream.seek(dumped.start)
            return stream.read(dumped.size).decode(errors="replace")

    def state(self, index: int) -> str:
        """The module before pass `index`, without debug locations."""
        return strip_locations(self.text(index))


def read_passes(
    path: Path, stage_ends: Sequence[tuple[str, int]] = (), changes: bool = True
) -> PassDump:
    """Reads a dump file; in time and memory linear in its length.

    `stage_ends`: (stage, length of the dump in bytes as that stage ended), where known: see
    `pool.StageRecord`. Otherwise stages are told by the passes they begin with.
    `changes`: work out which passes changed something, which is nine tenths of the time; False
    leaves `CompilerPass.changed` and `CompilerPass.conversions` None.

    Raises:
        KinspectError: the file cannot be read or holds no dump.
    """
    try:
        with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as m:
            split = list(_split(m))
            passes = list(_with_stages(split, dict(stage_ends)))
            if changes:
                passes = list(_with_changes(m, passes))
    except OSError as error:
        raise KinspectError(
            f"{path}: the pass dump cannot be read: {error.strerror or error}", "check the path"
        ) from error
    except ValueError:  # mmap of an empty file
        passes = []
    if not passes:
        raise KinspectError(
            f"{path} holds no MLIR pass dump",
            "make one with MLIR_ENABLE_DUMP=1 MLIR_DUMP_PATH=FILE, or let `kinspect passes` do it",
        )
    return PassDump(path, tuple(passes))


def diff(dump: PassDump, before: int, after: int) -> str:
    """Returns the change between two states: those before the passes `before` and `after`.

    `diff(dump, n, n + 1)` is the change by pass n. Debug locations, value numbers and the names of
    layout aliases are ignored.

    Raises:
        KinspectError: no such pass.
    """
    for index in (before, after):
        if not 0 <= index < len(dump.passes):
            raise KinspectError(
                f"{dump.path} has no pass {index}", f"passes count from 0 to {len(dump.passes) - 1}"
            )
    labels = [f"before {dump.passes[i].name} (pass {i})" for i in (before, after)]
    return unified_diff(dump.text(before), dump.text(after), labels[0], labels[1])


def _split(content: mmap.mmap) -> Iterator[CompilerPass]:
    headers = [
        (m.start(), m.end(), m[0].decode(errors="replace")) for m in ANY_HEADER.finditer(content)
    ]
    index = 0
    for position, (_, end, text) in enumerate(headers):
        match = HEADER.fullmatch(text)
        if match is None:  # "IR Dump After ...": printed when a pass fails
            continue
        stop = headers[position + 1][0] if position + 1 < len(headers) else len(content)
        kernel = KERNEL.search(content, end, stop)
        yield CompilerPass(
            index=index,
            name=match["name"],
            cli=match["cli"] or match["older_cli"] or "",
            options=" ".join((match["options"] or "").strip("{}").split()),
            op=match["op"] or "",
            function=match["symbol"],
            stage="",
            run=0,
            kernel=kernel["name"].decode(errors="replace").strip('"') if kernel else None,
            start=end + 1,
            size=max(0, stop - end - 1),
        )
        index += 1


def _with_stages(passes: Sequence[CompilerPass], ends: dict[str, int]) -> Iterator[CompilerPass]:
    """Adds stages and runs: by the known end of `ttgir`, or else by passes that open a stage."""
    if "ttgir" in ends:
        first = _first_of_llir(passes, ends["ttgir"])
        for item in passes:
            yield replace(item, stage="ttgir" if item.index < first else "llir")
        return
    stage, run, previous = "", 0, None
    for item in passes:
        next_stage = _stage_of(item, stage)
        goes_back = bool(stage) and STAGES.index(next_stage) < STAGES.index(stage)
        if goes_back or (previous is not None and item.kernel != previous):
            run += 1
            next_stage = _stage_of(item, "")
        stage, previous = next_stage, item.kernel
        yield replace(item, stage=stage, run=run)


def _stage_of(item: CompilerPass, stage: str) -> str:
    """The stage a pass belongs to, given that of the pass before it ("" if there is none)."""
    if item.cli in TTGIR_OPENERS:
        return "ttgir"
    if stage == "ttgir" and item.cli in LLIR_OPENERS:
        return "llir"
    if stage == "llir" and item.cli in TTIR_OPENERS:
        return "ttir"
    return stage or "ttir"


def _first_of_llir(passes: Sequence[CompilerPass], ttgir_end: int) -> int:
    """Index of the first pass after the ttgir stage, whose end is known to within a page."""
    later = [p for p in passes if p.start >= ttgir_end]
    near = [p for p in later if p.start < ttgir_end + PAGE]
    for item in near:
        if item.cli in LLIR_OPENERS:
            return item.index
    return later[0].index if later else len(passes)


def _with_changes(content: mmap.mmap, passes: Sequence[CompilerPass]) -> Iterator[CompilerPass]:
    """Adds whether each pass changed the IR, and the layout conversions before it."""
    digest = b""
    raw = b""
    states: Iterable[tuple[CompilerPass, bytes]] = (
        (p, content[p.start : p.start + p.size]) for p in passes
    )
    previous: CompilerPass | None = None
    for item, text in states:
        if previous is not None:
            changed: bool | None = None
            if item.run == previous.run:
                changed = False
                if text.strip() != raw:
                    if not digest:
                        digest = _digest(raw)
                    new_digest = _digest(text)
                    changed = new_digest != digest
                    digest = new_digest
            else:
                digest = b""
            yield replace(previous, changed=changed)
        previous, raw = replace(item, conversions=len(CONVERSION.findall(text))), text.strip()
    if previous is not None:
        yield previous


def _digest(text: bytes) -> bytes:
    return hashlib.sha256(canonical(text.decode(errors="replace")).encode()).digest()
