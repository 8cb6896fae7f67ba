"""The types of kernel arguments as Triton's signatures spell them."""

from __future__ import annotations

import ast
import difflib
import re

# Names that `triton.language.str_to_ty` accepts (3.4 to 3.9), without `B` and `constexpr`, which no
# case needs.
INTEGERS = ("i1", "i8", "i16", "i32", "i64", "u1", "u8", "u16", "u32", "u64")
FLOATS = ("bf16", "fp16", "fp32", "fp64", "fp8e4b15", "fp8e4b8", "fp8e4nv", "fp8e5", "fp8e5b16")
POINTER = "*"
CONST = "k"
"""After the star: a pointer that is not written through (`*kfp32`)."""
MOST_STARS = 4
LAYOUTS = ("NVMMASharedLayout", "PaddedSharedLayout", "SwizzledSharedLayout")
"""Calls that end a descriptor's type in Gluon; `str_to_ty` evaluates that end."""
DESCRIPTOR = re.compile(
    r"tensordesc(?:_im2col)?<(?P<element>\w+)\[\d+(?:, ?\d+){0,7}\]"
    r"(?:,input_rank=\d{1,2})?(?:,(?P<layout>[\w\s=,.()\[\]-]{1,2000}))?>"
)
TORCH_NAMES = {
    "fp16": "float16",
    "bf16": "bfloat16",
    "fp32": "float32",
    "fp64": "float64",
    "i1": "bool",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "u8": "uint8",
    "u16": "uint16",
    "u32": "uint32",
    "u64": "uint64",
    "fp8e4b8": "float8_e4m3fnuz",
    "fp8e5b16": "float8_e5m2fnuz",
    "fp8e4nv": "float8_e4m3fn",
    "fp8e5": "float8_e5m2",
}
"""Triton's names -> torch's. https://triton-lang.org: triton.language, Data Types."""
MODULES = ("torch.", "tl.", "np.", "numpy.")

# What PyTorch, NumPy, C and `tl` call them.
ALIASES = {
    **{torch: triton for triton, torch in TORCH_NAMES.items()},
    "int1": "i1",
    "char": "i8",
    "short": "i16",
    "int": "i32",
    "long": "i64",
    "uint": "u32",
    "half": "fp16",
    "f16": "fp16",
    "bfloat": "bf16",
    "float": "fp32",
    "f32": "fp32",
    "double": "fp64",
    "f64": "fp64",
    "fp8": "fp8e4nv",
    "float8e4nv": "fp8e4nv",
    "float8e4b8": "fp8e4b8",
    "float8e4b15": "fp8e4b15",
    "float8e5": "fp8e5",
    "float8e5b16": "fp8e5b16",
}

ADVICE = f"the types are {', '.join(INTEGERS + FLOATS)}; a pointer has * in front"


def element_of(pointer: str) -> tuple[str, int] | None:
    """Name and bytes of a pointer's elements; None of any other type."""
    stars, element = _split_pointer(pointer)
    if stars.rstrip(CONST) != POINTER:
        return None
    digits = re.search(r"\d+", element)
    return element, max(1, int(digits[0]) // 8) if digits else 1


def is_type(name: str) -> bool:
    """Whether a text is a type of Triton's signatures, with nothing in it for Triton to evaluate.

    That is a scalar, a pointer or a tensor descriptor.
    """
    descriptor = DESCRIPTOR.fullmatch(name)
    if descriptor is not None:
        layout = descriptor["layout"]
        return is_type(descriptor["element"]) and (layout is None or _is_layout(layout))
    stars, element = _split_pointer(name)
    return element in INTEGERS + FLOATS and len(stars) <= MOST_STARS + len(CONST)


def _is_layout(text: str) -> bool:
    """Whether a text is a call of one of `LAYOUTS` with literals alone."""
    try:
        call = ast.parse(text, mode="eval").body
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            return False
        for value in (*call.args, *(keyword.value for keyword in call.keywords)):
            ast.literal_eval(value)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return False
    return call.func.id in LAYOUTS and all(keyword.arg for keyword in call.keywords)


def nearest_type(name: str) -> str | None:
    """The type that a misspelt name probably means; None where no type is similar."""
    stars, element = _split_pointer(name.strip())
    if element.endswith(POINTER):  # C's order
        element = element[:-1].strip()
        stars += POINTER
    for module in MODULES:
        if element.startswith(module):
            element = element[len(module) :]
    element = element.lower()
    if element in INTEGERS + FLOATS:
        return stars + element
    if element in ALIASES:
        return stars + ALIASES[element]
    matches = difflib.get_close_matches(element, [*INTEGERS, *FLOATS, *ALIASES], n=1, cutoff=0.6)
    return stars + ALIASES.get(matches[0], matches[0]) if matches else None


def _split_pointer(name: str) -> tuple[str, str]:
    """The pointer part (`*`, `*k`) and the element type of a type's name."""
    element = name.lstrip(POINTER)
    stars = name[: len(name) - len(element)]
    if stars and element.startswith(CONST):
        return stars + CONST, element[len(CONST) :]
    return stars, element
