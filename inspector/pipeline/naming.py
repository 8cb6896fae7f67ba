"""Names: the ids and labels of kernels and variants, and the patterns that users select them by."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from ..capture import options
from ..model import Variant


def kernel_id(path: str, name: str, arch: str | None, variant: Variant | None) -> str:
    """Returns a kernel's id, `file::kernel@arch`; that of a specialisation ends in a hash.

    The hash is of signature, constexprs, options and attributes. The file is relative to the
    current folder if it lies in it, so that ids and the fingerprints that depend on them are the
    same in every checkout.
    """
    # Not the symbol: generated code may give all kernels the same.
    kernel = variant.kernel if variant is not None else name
    base = f"{portable(path)}::{kernel}@{arch or 'unknown'}"
    if variant is None:
        return base
    import hashlib  # loads OpenSSL: only where there is something to hash

    key = json.dumps(
        [
            dict(variant.signature),
            dict(variant.constexprs),
            dict(variant.options),
            {k: dict(v) for k, v in variant.attrs.items()},
        ],
        sort_keys=True,
        default=str,
    )
    return f"{base}#{hashlib.sha256(key.encode()).hexdigest()[:12]}"


def portable(path: str) -> str:
    """Returns a file's path relative to the current folder if it lies in it; else unchanged."""
    try:
        return Path(path).resolve().relative_to(Path.cwd().resolve()).as_posix()
    except (ValueError, OSError):
        return path


def label_of(variant: Variant) -> str:
    """Returns `kernel[case]`, or the kernel's name if the variant has no case."""
    return f"{variant.kernel}[{variant.case}]" if variant.case else variant.kernel


def label_with_arch(variant: Variant) -> str:
    """Returns the name of a variant in error messages: `kernel[case] on gfx942`."""
    return f"{label_of(variant)} on {variant.arch}"


def names_of_function(name: str, symbol: str | None) -> tuple[str, ...]:
    """What a function of code is called: `gemm<128>`, `gemm` and its symbol."""
    return name, name.partition("<")[0], symbol or name


def matches(patterns: Sequence[str], name: str, variant: Variant | None) -> bool:
    """Tells whether each pattern matches the kernel's name, qualified name, case or label."""
    names = [name]
    if variant is not None:
        names += [n for n in (variant.qualname, variant.case) if n]
        if variant.case:
            names.append(label_of(variant))
    return options.matches(patterns, names)
