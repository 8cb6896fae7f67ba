"""Attributes of a kernel in LLVM IR, exchanged for those that another Triton sets."""

from __future__ import annotations

import re
from collections.abc import Mapping

_KERNEL = re.compile(r"^define amdgpu_kernel .*?\) (?:[\w()]+ )*?#(?P<group>\d+)", re.MULTILINE)


def with_attributes(text: str, ours: Mapping[str, str], theirs: Mapping[str, str]) -> str | None:
    """Returns LLVM IR whose kernel has another Triton's attributes in place of its own.

    Args:
        text: LLVM IR of one kernel.
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
