"""What is compiled: a kernel in one specialisation, and what its script assumed before."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from .numbers import Count, Digest
from .source import SourceLoc


class Assumption(Struct, frozen=True):
    """An answer that a script got to what nobody knows, before it launched a kernel.

    Args:
        what: it asked, in words.
        assumed: the answer.
        source: where it asked.
        explored: whether this is the other answer than the likelier one, tried on request.
        reason: why it is not known, where a kernel wrote what was asked for: `off` (kernels are not
            executed on request), `unavailable` (the emulator does not know the target), `budget`
            (its seconds or memory are used up), `uncovered` (it lacks an instruction), `faulty`
            (the kernel races, hangs or accesses what it must not), `inputs` (what it reads is not
            known), `failed` (the compiler or the emulator broke off). None for anything else.
    """

    what: str
    assumed: str
    source: SourceLoc | None = None
    explored: bool = False
    reason: (
        Literal["off", "unavailable", "budget", "uncovered", "faulty", "inputs", "failed"] | None
    ) = None


class EmulatedValue(Struct, frozen=True):
    """What a script read of memory that kernels wrote, which were executed for it.

    Args:
        what: it asked, in words.
        value: the answer.
        source: where it asked.
    """

    what: str
    value: str
    source: SourceLoc


class Parameter(Struct, frozen=True):
    """An argument: Triton's type (`*fp16`, `i32`) and a number, which is a pointer's address.

    What is not finite is a text: `inf`.
    """

    kind: str
    value: int | float | str


class PassedMemory(Struct, frozen=True):
    """Memory that a launch's pointers point into.

    Args:
        address: of its first byte.
        size: bytes.
        dtype: torch's name of the elements of the tensor that was passed: `float16`, `int32`.
        contents: what it holds; None where that is not known, or was not recorded.
    """

    address: int
    size: int
    dtype: str
    contents: bytes | None = None


class Passed(Struct, frozen=True):
    """What a specialisation's largest launch passed to its kernel."""

    parameters: tuple[Parameter, ...]
    memories: tuple[PassedMemory, ...]


class Variant(Struct, frozen=True, kw_only=True):
    """One specialisation of one kernel for one target: TTIR + options + target.

    `ttir` is the whole input of the compile: nothing of the user's code is needed after capture.
    `signature` maps argument name to Triton type (`*fp16`, `i32`, `constexpr`), `attrs` argument
    name to its specialisation attributes (`{"tt.divisibility": 16}`).

    Of several launches the largest counts, by its programs and the bytes of its tensors. `grid` is
    its grid, `call_site` where it was made, `launches` how many there were, `tuning` the
    autotuner's configuration it belongs to, `notes` what happened on the way that a reader of the
    figures should know, `assumptions` what the script was told before that nobody knows: on a GPU
    it may launch something else. `emulated` is what it was told before that comes from executed
    kernels.

    `unspecialised` says of which arguments Triton does not note that they are 1 or divisible by 16,
    and what keeps it from that: `annotation` (of 1 only), `do_not_specialize` or
    `do_not_specialize_on_alignment`. Of all others it noted what the launch passed. None where no
    launch was seen. `values` are the whole numbers that the launch passed, by argument.

    `generator` is the compiler that wrote the kernel: `inductor`; None where a person did.
    `passed` is what the launch passed; None where none was seen or it was not asked for.
    `environment` are the variables that are set for this compile, besides those of the process.
    """

    case: str | None = None
    signature: Mapping[str, str] = field(default_factory=dict)
    constexprs: Mapping[str, Any] = field(default_factory=dict)
    attrs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    options: Mapping[str, Any]
    wave_size: Annotated[int, Meta(ge=1, le=1024)]
    grid: tuple[int, ...] | None = None
    call_site: SourceLoc | None = None
    qualname: str | None = None
    triton_version: str | None = None
    tuning: Mapping[str, Any] | None = None
    launches: Count | None = None
    notes: tuple[str, ...] = ()
    assumptions: tuple[Assumption, ...] = ()
    emulated: tuple[EmulatedValue, ...] = ()
    unspecialised: Mapping[str, str] | None = None
    values: Mapping[str, int] | None = None
    generator: str | None = None
    # Reports have none of these: what else a compile takes.
    kernel: str
    arch: str
    ttir: str
    stage: str = "ttir"  # of the text in `ttir`: "ttgir" where only that was saved, "llir" to blame
    source: SourceLoc | None = None
    passed: Passed | None = None
    environment: Mapping[str, str] = field(default_factory=dict)


class Artifact(Struct, frozen=True):
    """One file the compiler made. `kind` is ttir, ttgir, llir, amdgcn, hsaco, metadata, passes or
    stderr.
    """

    kind: str
    sha256: Digest
    size: Count = field(name="bytes")
    path: Path
