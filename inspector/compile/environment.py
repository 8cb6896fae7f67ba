"""Environment variables of guest processes: which they get, and which change what they compile."""

from __future__ import annotations

from collections.abc import Mapping

from ..base.programs import absolute_folders

DROPPED = frozenset(
    {
        # These replace the target, the compiler's input or its output without our knowing.
        "TRITON_INTERPRET",
        "TRITON_OVERRIDE_ARCH",
        "TRITON_KERNEL_OVERRIDE",
        "TRITON_STORE_BINARY_ONLY",
        "TRITON_SWAP_MIR",
        "TRITON_SWAP_MIR_ENABLE_MISCHED",
        "USE_IR_LOC",
        # These put results where we cannot read them, or where other processes can.
        "TRITON_CACHE_DIR",
        "TRITON_CACHE_MANAGER",
        "TRITON_REMOTE_CACHE_BACKEND",
        # These flood stderr, where we look for diagnostics; a dump is asked for per compile.
        "MLIR_ENABLE_DUMP",
        "MLIR_DUMP_PATH",
        "MLIR_ENABLE_TIMING",
        "LLVM_IR_ENABLE_DUMP",
        "LLVM_ENABLE_TIMING",
        "AMDGCN_ENABLE_DUMP",
        "TRITON_KERNEL_DUMP",
        "TRITON_DUMP_MIR",
        "TRITON_ENABLE_LLVM_DEBUG",
        "TRITON_LLVM_DEBUG_ONLY",
        "TRITON_REPRODUCER_PATH",
    }
)
"""Variables that are kept from a guest."""

DEFAULTS = {"TRITON_DEFAULT_FP_FUSION": "1"}
"""Variables that are made explicit: Triton 3.10 changes the default that 3.9 warns about."""

RELEVANT_PREFIXES = ("TRITON_", "AMDGCN_", "LLVM_", "MLIR_", "DISABLE_LLVM_OPT")
"""Of variables that Triton and LLVM read while they compile."""
IRRELEVANT = frozenset(
    {
        "TRITON_HOME",
        "TRITON_DUMP_DIR",
        "TRITON_OVERRIDE_DIR",
        "TRITON_ALWAYS_COMPILE",
        "TRITON_CACHE_AUTOTUNING",
        "TRITON_PRINT_AUTOTUNING",
        "TRITON_BACKENDS_IN_TREE",
    }
)
"""Exceptions to the prefixes: where files lie, and what is printed or compiled again."""


def guest_environment(base: Mapping[str, str]) -> dict[str, str]:
    """`base` without `DROPPED`, and with defaults that differ between Tritons made explicit.

    Of PATH the absolute folders are left: an interpreter may be a script that looks for a shell.
    """
    inherited = {name: value for name, value in base.items() if name not in DROPPED}
    return {**DEFAULTS, **inherited, "PATH": absolute_folders(base.get("PATH"))}


def compile_relevant(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables of a guest environment that may change what a compile yields.

    By prefix rather than by a list of names: a variable too many costs a compile, one too few
    yields a wrong answer from the store.
    """
    return {
        name: value
        for name, value in environment.items()
        if name.startswith(RELEVANT_PREFIXES) and name not in IRRELEVANT
    }
