"""What the custom assembly of single operations leaves out or leaves unnamed.

The parser reads the custom form of any operation by its punctuation. These tables hold the few
facts that punctuation does not give, as printed by Triton 3.0 - 3.9 and its upstream dialects;
tests compare the outcome with MLIR's own generic form.
"""

from __future__ import annotations

from collections.abc import Mapping

INLINE_NAMES: Mapping[str, tuple[str, ...]] = {
    # Names, in the generic form, of the bare keywords and literals of the custom form, in order;
    # the last name takes all that remain when it starts with `*`.
    "arith.cmpf": ("predicate",),
    "arith.cmpi": ("predicate",),
    "arith.constant": ("value",),
    "arith.truncf": ("roundingmode",),
    "amdg.buffer_atomic_rmw": ("atomic_rmw_op", "sem", "scope"),
    "amdgpu.buffer_atomic_rmw": ("atomic_rmw_op", "sem", "scope"),
    "amdg.buffer_atomic_cas": ("sem", "scope"),
    "amdgpu.buffer_atomic_cas": ("sem", "scope"),
    "amdg.extract_slice": ("*static_offsets",),
    "amdgpu.extract_slice": ("*static_offsets",),
    "cf.assert": ("msg",),
    "func.call": ("callee",),
    "rocdl.s.setprio": ("priority",),
    "rocdl.sched.barrier": ("mask",),
    "tt.assert": ("message",),
    "tt.atomic_cas": ("sem", "scope"),
    "tt.atomic_rmw": ("atomic_rmw_op", "sem", "scope"),
    "tt.call": ("callee",),
    "tt.descriptor_reduce": ("kind",),
    "tt.elementwise_inline_asm": ("asm_string",),
    "tt.fp_to_fp": ("*rounding",),
    "tt.func": ("sym_name",),
    "tt.get_num_programs": ("axis",),
    "tt.get_program_id": ("axis",),
    "tt.print": ("prefix",),
    "ttg.memdesc_subslice": ("*offsets",),
}

VISIBILITIES = frozenset(("public", "private", "nested"))

FUNCTIONS = frozenset(("tt.func", "func.func", "llvm.func"))

SHADOWING = frozenset(
    ("tt.func", "func.func", "llvm.func", "builtin.module", "ttg.warp_specialize")
)
"""Operations whose regions are isolated: names inside may repeat names outside."""

RESULT_RULES: Mapping[str, str] = {
    # How result types follow from the printed types where the form has no `->`. The default is
    # `last`: as many types as results are theirs in order, else the last one is every result's.
    # A rule that starts with `!` is a type name that the form leaves out before `<...>`.
    "amdg.buffer_load_to_local": "token",
    "amdgpu.buffer_load_to_local": "token",
    "arith.addui_extended": "overflow",
    "arith.cmpf": "i1",
    "arith.cmpi": "i1",
    "tt.addptr": "first",
    "tt.advance": "!tt.ptr",
    "tt.load": "pointee",
    "tt.make_tensor_descriptor": "!tt.tensordesc",
    "tt.make_tensor_ptr": "!tt.ptr",
}

ASYNC_PREFIX = "async_"
"""Operations named so yield a token (`ttg.async_wait`, `amdg.async_tdm_wait`, ...)."""

TRAILING_OPERANDS: Mapping[str, str] = {
    # Operands behind this keyword come last in the operation's own order:
    # `%a scale %a_scale, %b scale %b_scale, %c` is (a, b, c, a_scale, b_scale).
    "tt.dot_scaled": "scale",
}

TOKEN_TYPES: Mapping[str, str] = {
    "triton_gpu": "!triton_gpu.async.token",
}
DEFAULT_TOKEN = "!ttg.async.token"
