"""The inputs that two Tritons give LLVM's code generator, told apart and exchanged."""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec.structs import replace

from ...compile.pool import LlvmInputs

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
