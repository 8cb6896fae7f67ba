"""TTGIR of an older Triton as a newer one spells it, so that it can take it over.

The inputs that two Tritons give LLVM's code generator, told apart and exchanged. Defaults that
differ between two Tritons: of the backend's options, and of its switches.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from ...compile.pool import CompileResult, LlvmInputs
from ...model import Variant

_BUFFER_ACCESS = re.compile(
    r"(amdg\.buffer_(?:load|store)(?!_)\b[^\n]*?) : (tensor<(?:\d+x)+([^,<>]+|!tt\.ptr<[^<>]*>), )"
)
_COPY_INTO_LDS = re.compile(
    r"(amdg\.buffer_load_to_local\b[^\n]*?) : <([^<>]+)>\[(?=tensor<[^\n]*?\] +-> )"
)
_DIALECT = re.compile(r"\bamdgpu\.(?=[a-z_]+[ (])")
_WARPS_OF_WMMA = re.compile(r"(#ttg\.amd_wmma<\{[^{}]*)\bwarpsPerCTA = \[(?P<counts>[\d, ]+)\]")
_SCHED_BARRIER = re.compile(r"(rocdl\.sched\.barrier) ([01])\b")
_MASKS = {"0": "none", "1": "non_mem_non_sideeffect"}
"""Masks of scheduling barriers as numbers, and the words that MLIR prints for them since."""


def newer_spellings(text: str) -> tuple[str, ...]:
    """Returns TTGIR as later versions of Triton spell it, the least changed first.

    The AMD dialect has a shorter name since 3.6. Since 3.7 the layout of a WMMA instruction says
    which bit of a wave's number moves it by which step, where it said how many waves lie along each
    dimension, the last one first. Since 3.9 buffer accesses state the pointer's type
    in full, and scheduling barriers have words for numbers. Operations that changed in other ways
    stay as they are, and are refused by the newer parser.

    Returns:
        The texts that differ from each other and from the one given.
    """
    since_3_6 = _DIALECT.sub("amdg.", text)
    since_3_7 = _WARPS_OF_WMMA.sub(_warps, since_3_6)
    since_3_9 = _COPY_INTO_LDS.sub(r"\1 : !tt.ptr<\2>[", since_3_7)
    since_3_9 = _SCHED_BARRIER.sub(lambda match: f"{match[1]} {_MASKS[match[2]]}", since_3_9)
    since_3_9 = _BUFFER_ACCESS.sub(_access, since_3_9)
    spellings = dict.fromkeys((since_3_6, since_3_7, since_3_9))
    return tuple(item for item in spellings if item != text)


def _warps(match: re.Match[str]) -> str:
    counts = [int(count) for count in match["counts"].split(",")]
    steps = [
        [1 << bit if other == dimension else 0 for other in range(len(counts))]
        for dimension in reversed(range(len(counts)))
        for bit in range(counts[dimension].bit_length() - 1)
    ]
    return f"{match[1]}ctaLayout = {{warp = {steps}}}"


def _access(match: re.Match[str]) -> str:
    head, tensor, element = match.groups()
    return f"{head} : !tt.ptr<{element}> -> {tensor}"


FLAGS, FEATURES = "flags", "features"
_KERNEL = re.compile(r"^define amdgpu_kernel .*?\) (?:[\w()]+ )*?#(?P<group>\d+)", re.MULTILINE)


def with_attributes(text: str, ours: Mapping[str, str], theirs: Mapping[str, str]) -> str | None:
    """Returns LLVM IR whose kernel has another Triton's attributes in place of its own.

    Args:
        ours: attributes that the Triton which made it has set: name -> value.
        theirs: those that the other one sets. Attributes that LLVM has inferred stay as they are.

    Returns:
        None if the kernel or its attributes cannot be found in the text.
    """
    changed = {name for name in {*ours, *theirs} if ours.get(name) != theirs.get(name)}
    if not changed:
        return text
    kernel = _KERNEL.search(text)
    if kernel is None:
        return None
    group = re.compile(rf"^(attributes #{kernel['group']} = {{)(.*)}}$", re.MULTILINE)
    if group.search(text) is None:
        return None

    def exchanged(match: re.Match[str]) -> str:
        kept = match[2].rstrip()
        for name in sorted(changed):
            kept = re.sub(rf' "{re.escape(name)}"(?:="[^"]*")?', "", kept)
            if name in theirs:
                kept += f' "{name}"="{theirs[name]}"'
        return f"{match[1]}{kept} }}"

    return group.sub(exchanged, text, count=1)


def differences(ours: LlvmInputs, theirs: LlvmInputs) -> dict[str, tuple[object, object]]:
    """Returns `flags`, `features` and attributes' names -> both values, where they differ.

    Flags are separated by commas. An attribute that is not set is None.
    """
    pairs: dict[str, tuple[object, object]] = {
        FLAGS: (", ".join(ours.flags), ", ".join(theirs.flags)),
        FEATURES: (ours.features, theirs.features),
    }
    for name in sorted({*ours.attributes, *theirs.attributes}):
        pairs[name] = ours.attributes.get(name), theirs.attributes.get(name)
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def exchanged(ours: LlvmInputs, theirs: LlvmInputs, name: str) -> LlvmInputs:
    """Returns the first with one thing of the second; see `differences` for its name."""
    if name == FLAGS:
        return replace(ours, flags=theirs.flags)
    if name == FEATURES:
        return replace(ours, features=theirs.features)
    others = {key: value for key, value in ours.attributes.items() if key != name}
    theirs_set = {name: theirs.attributes[name]} if name in theirs.attributes else {}
    return replace(ours, attributes={**others, **theirs_set})


_NOT_DEFAULTS = frozenset(
    # What a compile, not the user, decides, or what no version may take from another.
    ("arch", "backend_name", "extern_libs", "warp_size", "sanitize_overflow", "debug")
)


class Defaults(Struct, frozen=True):
    """Defaults of two builds where they differ.

    Args:
        options: option of the AMD backend -> its values in the left and the right build.
        switches: environment variable -> whether what it switches is on in each of them.
    """

    options: Mapping[str, tuple[object, object]] = field(default_factory=dict)
    switches: Mapping[str, tuple[bool, bool]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.options or self.switches)

    def both(self) -> dict[str, tuple[object, object]]:
        """Returns all of them by name."""
        return {**self.options, **self.switches}

    def only(self, name: str) -> Defaults:
        """Returns one of them."""
        return Defaults(
            {key: pair for key, pair in self.options.items() if key == name},
            {key: pair for key, pair in self.switches.items() if key == name},
        )

    def environment(self) -> tuple[tuple[str, str], ...]:
        """Returns the variables with which the right build's switches are set as the left's."""
        return tuple((name, str(int(left))) for name, (left, _) in sorted(self.switches.items()))

    def left_options(self, variant: Variant) -> Variant:
        """Returns a variant that states the left build's options."""
        stated = {name: left for name, (left, _) in self.options.items()}
        return replace(variant, options={**variant.options, **stated})


def defaults_of(
    left: CompileResult, right: CompileResult, shared_options: frozenset[str], variant: Variant
) -> Defaults:
    """Returns the defaults that differ."""
    ours, theirs = left.metadata, right.metadata
    options = {
        name: (ours[name], theirs[name])
        for name in sorted(shared_options - _NOT_DEFAULTS - set(variant.options))
        if name in ours and name in theirs and ours[name] != theirs[name]
    }
    switches: dict[str, tuple[bool, bool]] = {}
    if left.switches is not None and right.switches is not None:
        for name, theirs_on in sorted(right.switches.items()):
            # A build without the switch is one without what it switches.
            ours_on = left.switches.get(name, False)
            if ours_on != theirs_on:
                switches[name] = (ours_on, theirs_on)
    return Defaults(options, switches)
