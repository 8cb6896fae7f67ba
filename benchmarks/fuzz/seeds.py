"""Undamaged files of every kind: the tests' own, and what the tests' makers write."""

from __future__ import annotations

import functools
import io
import json
import struct
import tempfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from .mutate import Files

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "data"
_SMALL = 60_000


def _of(folder: Path, *patterns: str, name: str = "") -> list[Files]:
    """One seed for each file; all get one name where the suffix is what counts."""
    found = sorted({path for pattern in patterns for path in folder.rglob(pattern)})
    return [
        {name or path.name: path.read_bytes()} for path in found if path.stat().st_size <= _SMALL
    ]


def _made(make: Callable[[Path], object]) -> Files:
    """What a maker writes into a folder."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make(folder)
        return {
            str(path.relative_to(folder)): path.read_bytes()
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        }


def _asm() -> list[Files]:
    found = _of(DATA / "isa", "*.s", "*.amdgcn")
    macros = b""".macro step n
  v_add_f32 v\\n, v\\n, v\\n
.endm
.amdgcn_target "amdgcn-amd-amdhsa--gfx90a"
k:
.rept 4
  step 1
.endr
.set n, 3
.if n > 2
  s_waitcnt vmcnt(n)
.endif
.irp x, 1, 2
  v_mov_b32 v\\x, s[0]
.endr
1:
  s_cbranch_scc0 1b
  s_endpgm
.amdhsa_kernel k
  .amdhsa_next_free_vgpr n*4
.end_amdhsa_kernel
"""
    return [*found, {"macros.s": macros}]


def _objects() -> list[Files]:
    return _of(DATA, "*.hsaco")


def _bundles() -> list[Files]:
    images = [next(iter(files.values())) for files in _objects()[:3]]
    entry = struct.Struct("<QQQ")
    triples = [b"hip-amdgcn-amd-amdhsa--gfx942:xnack-", b"hip-amdgcn-amd-amdhsa--gfx90a", b"host-x"]
    head = 32 + sum(entry.size + len(t) for t in triples)
    table, body = b"", b""
    for triple, image in zip(triples, images, strict=True):
        table += entry.pack(head + len(body), len(image), len(triple)) + triple
        body += image
    plain = b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", len(triples)) + table + body
    packed = zlib.compress(plain)
    size = 32 + len(packed)
    return [
        {"a.co": plain},
        {"a.co": struct.pack("<4sHHQQ8x", b"CCOB", 3, 0, size, len(plain)) + packed},
        {"a.co": struct.pack("<4sHHII8x", b"CCOB", 2, 0, size - 8, len(plain)) + packed},
    ]


def _ttgir() -> list[Files]:
    return _of(DATA / "ttgir", "*.ttgir")


def _ttir() -> list[Files]:
    text = b"""#loc = loc("k.py":3:0)
module {
  tt.func public @k(%x: !tt.ptr<f16> {tt.divisibility = 16 : i32}, %n: i32) {
    %c = arith.constant dense<0.0> : tensor<64x64xf32> loc(#loc1)
    %a = tt.splat %x : !tt.ptr<f16> -> tensor<64x32x!tt.ptr<f16>> loc(#loc1)
    %b = tt.load %a : tensor<64x32x!tt.ptr<f16>> loc(#loc2)
    %t = tt.trans %b {order = array<i32: 1, 0>} : tensor<64x32xf16> -> tensor<32x64xf16> loc(#loc2)
    %d = tt.dot %b, %t, %c : tensor<64x32xf16> * tensor<32x64xf16> -> tensor<64x64xf32> loc(#loc2)
    tt.return loc(#loc)
  } loc(#loc)
} loc(#loc)
#loc1 = loc("k.py":4:2)
#loc2 = loc(callsite(#loc1 at #loc))
"""
    return [{"k.ttir": text}, *({"k.ttir": data} for f in _ttgir()[:3] for data in f.values())]


def _folder() -> list[Files]:
    ttgir = next(iter(_ttgir()[-1].values()))
    isa = DATA / "isa"
    entry = {
        "k/k.ttgir": ttgir,
        "k/k.amdgcn": (isa / "calls.triton39.gfx942.amdgcn").read_bytes(),
        "k/k.hsaco": (isa / "calls.triton39.gfx942.hsaco").read_bytes(),
        "k/k.json": json.dumps(
            {"shared": 0, "num_warps": 4, "target": {"backend": "hip", "arch": "gfx942"}}
        ).encode(),
        "k/__grp__k.json": json.dumps({"child_paths": {"k.json": "k.json"}}).encode(),
        "k/x.best_config": b'{"triton_cache_hash": "k"}',
    }
    wrapper = (DATA / "inductor" / "wrapper.py.txt").read_bytes()
    return [entry, {**entry, "w/output_code.py": wrapper}]


def _report_text() -> bytes:
    from kinspect.inspector.pipeline.collecting import collect
    from kinspect.inspector.pipeline.jobs import Request
    from kinspect.inspector.report import json_write as json_v1

    names = ("calls.triton39.gfx942.amdgcn", "attend.triton39.gfx950.amdgcn")
    report = collect(Request(tuple(str(DATA / "isa" / name) for name in names)))
    out = io.StringIO()
    json_v1.write(report, out)
    return out.getvalue().encode()


def _report() -> list[Files]:
    whole = json.loads(_report_text())
    seeds = [{"r.json": json.dumps({**whole, "kernels": [k]}).encode()} for k in whole["kernels"]]
    failed = {"file": "k.s", "kernel": None, "stage": "read", "message": "m", "hint": "h"}
    return [*seeds, {"r.json": json.dumps({**whole, "kernels": [], "errors": [failed]}).encode()}]


def _archive() -> list[Files]:
    import hashlib
    import zipfile

    text = (DATA / "isa" / "calls.triton39.gfx942.amdgcn").read_bytes()
    digest = hashlib.sha256(text).hexdigest()
    whole = json.loads(_report()[0]["r.json"])
    whole["kernels"][0]["artifacts"] = {"amdgcn": {"sha256": digest, "bytes": len(text)}}
    older = {**whole, "tool": {**whole["tool"], "analysis": "1"}}
    found = []
    for report in (whole, older):
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("report.json", json.dumps(report))
            archive.writestr(f"artifacts/{digest}", text)
        found.append({"r.kinspect": out.getvalue()})
    return found


def _kitrace() -> list[Files]:
    from kinspect.inspector.capture import trace

    kernel = trace.TracedKernel("__main__", "copy", "/k.py", 3, "0" * 64, False, "import triton\n")
    one = trace.TracedSpecialization(
        id="a", kernel=kernel, signature={"x": "*fp32", "n": "i32"}, constexprs=[([2], 128)],
        attrs=[([0], [("tt.divisibility", 16)])], options={"num_warps": 4}, asked={},
        target=trace.GpuTarget("hip", "gfx942", 64), triton="3.9.0", via="launch",
        storages=[([0], 400)], call_site=trace.CallSite("/k.py", 9),
        tuning=trace.TracedTuning({"BLOCK": 128}, 3, ["n"]), compiled=True, launches=4,
        grids=[([4, 1, 1], 4)], small=[[[0]]],
    )  # fmt: skip
    process = trace.Process(1, 7, 1, ["p.py"], "/", "/python", "3.11", "3.9.0", None, ["/"])
    head = trace.TraceHead(trace.SCHEMA_VERSION, "0", ["python", "p.py"], "/", 0)
    whole = trace.LaunchTrace(head, (process,), (one, one), (trace.Problem("x", "y", 7),))
    return [_made(lambda folder: trace.write_trace(whole, folder / "t.kitrace"))]


def _inductor() -> list[Files]:
    return [{"output_code.py": (DATA / "inductor" / "wrapper.py.txt").read_bytes()}]


def _cases() -> list[Files]:
    found = [{"k.py": p.read_bytes()} for p in sorted((ROOT / "kernels").glob("*.py"))[:4]]
    return [*found, {"k.py": (DATA / "guest_kernels.py").read_bytes()}]


def _pack() -> list[Files]:
    found = [{"pack.yaml": p.read_bytes()} for p in sorted((ROOT / "rules").glob("*.yaml"))]
    small = b"""extends: recommended
pack: mine
rules:
  - id: M1
    name: few-registers
    severity: warning
    scope: kernel
    when: vgpr_count > 3
    require: "vgpr_count < 200 and occupancy.waves_per_eu >= 2"
    message: "{vgpr_count} registers"
    fix: use fewer
    tags: [memory]
"""
    return [{"pack.yaml": small}, *found]


def _baseline() -> list[Files]:
    from kinspect.inspector.lint import baseline

    entries = {
        f"{n:064x}": baseline.BaselineEntry("k", "KI001", "m", f"{n:064x}", n) for n in (1, 2, 3)
    }
    return [{"baseline.json": baseline.render(baseline.Baseline(entries)).encode()}]


def _settings() -> list[Files]:
    text = b"""[project]
name = "x"
[tool.kinspect]
rules = ["recommended"]
select = ["memory", "KI001"]
ignore = ["KI013"]
fail-on = "warning"
arch = ["gfx942"]
[[tool.kinspect.kernel]]
match = "gemm*"
file = "kernels/*.py"
ignore = ["KI003"]
severity = { KI004 = "info" }
budget = { vgpr_count = 128, occupancy.waves_per_eu = ">= 2" }
"""
    return [{"pyproject.toml": text}]


def _rocprof_csv() -> list[Files]:
    import csv_files

    def write(folder: Path) -> None:
        csv_files.write(
            folder / "1_kernel_trace.csv", csv_files.TRACE, [csv_files.traced(n) for n in range(4)]
        )
        rows = [
            csv_files.counted(n, name, 5.0) for n in range(4) for name in ("SQ_WAVES", "TCC_HIT[0]")
        ]
        csv_files.write(folder / "1_counter_collection.csv", csv_files.COUNTED, rows)

    return [_made(write)]


def _rocprof_older_csv() -> list[Files]:
    import csv_files

    v1 = [0, "k", 2, 0, 0, 33, 33, 64, 64, 0, 0, 8, 0, 16, 64, "0", "0", 1, 2.5, 1, 2, 3, 4, 5]
    sample = [5, 1, 1, "s_endpgm", "", 1, 0, "T", f"{csv_files.REASON}WAITCNT", 4]

    def write(folder: Path) -> None:
        csv_files.write(folder / "results.csv", csv_files.V1, [v1, v1])
        columns = csv_files.names(csv_files.STOCHASTIC)
        csv_files.write(folder / "7_pc_sampling_stochastic.csv", columns, [sample] * 3)
        agents = [csv_files.agent_row(1, 1, "GPU")]
        csv_files.write(folder / "7_agent_info.csv", csv_files.AGENTS, agents)

    return [_made(write)]


def _proton() -> list[Files]:
    import msgspec
    import test_rocprof_formats

    tree = test_rocprof_formats.TREE
    return [
        {"x.hatchet": json.dumps(tree).encode()},
        {"x.hatchet_msgpack": msgspec.msgpack.encode(tree)},
    ]


def _rocprof_json() -> list[Files]:
    import profile_files

    return [
        _made(
            lambda folder: profile_files.write_results(
                folder / "1_results.json", profile_files.program()
            )
        )
    ]


def _rocpd() -> list[Files]:
    import profile_bases
    import profile_files

    def write(schema: str, folder: Path) -> None:
        profile_bases.write_rocpd(
            folder / "1_results.db", profile_files.program(), schema=schema, samples=True
        )

    return [_made(functools.partial(write, schema)) for schema in ("3", "4")]


def _rocprof_v1() -> list[Files]:
    import profile_bases
    import profile_traces

    old = [
        profile_traces.OldLaunch("copy", 1000, 2000),
        profile_traces.OldLaunch("gemm", 3000, 9000),
    ]
    return [
        _made(lambda folder: profile_traces.write_v1_json(folder / "results.json", old)),
        _made(lambda folder: profile_bases.write_v1_db(folder / "results.db", old)),
    ]


def _torch() -> list[Files]:
    import profile_traces

    kernels = [
        profile_traces.TorchKernel("copy", "1.0", "2.0"),
        profile_traces.TorchKernel("gemm", "5.0", "3.0"),
    ]
    return [
        _made(lambda folder: profile_traces.write_torch(folder / "t.json", kernels)),
        _made(lambda folder: profile_traces.write_torch(folder / "t.json.gz", kernels)),
    ]


def _att() -> list[Files]:
    import att_files

    code = att_files.listed(DATA / "isa" / "attend.triton39.gfx950.hsaco", "attend")
    costs = {
        one.address: att_files.Cost(hits=1 + n % 10, stall=50 + n) for n, one in enumerate(code)
    }
    return [_made(lambda folder: att_files.write_trace(folder / "run", "attend", code, costs))]


def _compute() -> list[Files]:
    import test_rocprof_compute

    def write(folder: Path) -> None:
        test_rocprof_compute.write(
            folder / "pmc_perf.csv",
            f"{test_rocprof_compute.BASE},SQ_WAVES,TCC_HIT[0],Start_Timestamp,End_Timestamp",
            *([*test_rocprof_compute.base(n), 16, 1, 1000 * n, 1000 * n + 500] for n in range(3)),
        )
        test_rocprof_compute.write(
            folder / "sysinfo.csv",
            test_rocprof_compute.SYSINFO,
            [*test_rocprof_compute.DEVICE, 5324.8, 8],
        )
        (folder / "log.txt").write_text("Omniperf version: 2.0.0\nTarget: MI300X_A1\n")

    return [_made(write)]


def _fault() -> list[Files]:
    import test_fault

    text = (
        test_fault.FAULT
        + test_fault.wave(0, test_fault.WAIT)
        + test_fault.AT_WAIT
        + test_fault.wave(9, test_fault.WAIT_2, "ASSERT_TRAP|TRAP")
    )
    return [{"report.txt": text.encode()}]


def _gemm_sizes() -> list[Files]:
    return [
        {"sizes.yaml": b"- {'M': 64, 'N': 64, 'K': 128, 'rowMajorA': 'T', 'rowMajorB': 'N'}\n"
                       b"- {M: 1, N: 2, K: 3, BLOCK_SIZE_M: 64} # TFLOPS: 512.3 time(us): 4.19\n"},
        {"cases.txt": b"m: 64; n: 64; k: 128; seed: 6635\nm: 1; n: 2; k: 3; dtype: fp16\n"},
    ]  # fmt: skip


def _metadata() -> list[Files]:
    found = []
    for files in _asm():
        for text in files.values():
            _, start, rest = text.partition(b".amdgpu_metadata\n")
            if start:
                found.append({"m.yaml": rest.partition(b".end_amdgpu_metadata")[0].rstrip(b"\t")})
    return found


def _note() -> list[Files]:
    import msgpack

    kernel = {
        ".name": "k", ".symbol": "k.kd", ".vgpr_count": 8, ".wavefront_size": 64,
        ".reqd_workgroup_size": [64, 1, 1], ".args": [{".value_kind": "global_buffer"}],
    }  # fmt: skip
    root = {
        "amdhsa.kernels": [kernel],
        "amdhsa.target": "amdgcn-amd-amdhsa--gfx942",
        "amdhsa.version": [1, 2],
    }
    return [{"note": msgpack.packb(root)}]


def with_note(note: bytes) -> bytes:
    """A minimal AMDGPU ELF file with one metadata note."""
    padded = note + bytes(-len(note) % 4)
    content = struct.pack("<III", 7, len(note), 32) + b"AMDGPU\0\0" + padded
    names = b"\0.note\0"
    table = 64 + len(content) + len(names)
    header = struct.pack(
        "<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01\x40\x03", 3, 224, 1, 0, 0, table, 0x54C, 64, 0,
        0, 64, 3, 2,
    )  # fmt: skip
    sections = bytes(64)
    sections += struct.pack("<IIQQQQIIQQ", 1, 7, 2, 0, 64, len(content), 0, 0, 4, 0)
    sections += struct.pack("<IIQQQQIIQQ", 0, 3, 0, 0, 64 + len(content), len(names), 0, 0, 1, 0)
    return header + content + names + sections


def _history() -> list[Files]:
    import sqlite3

    def write(folder: Path) -> None:
        base = sqlite3.connect(folder / "results.sqlite")
        base.executescript((DATA / "history_v1.sql").read_text())
        base.close()

    return [_made(write)]


_IOTA = (ROOT / "docs" / "examples" / "iota.s").read_bytes()
_DEFINED = b"""import triton, triton.language as tl
@triton.jit
def k(x, n, B: tl.constexpr):
    tl.store(x + tl.arange(0, B), n)
"""


def _named() -> list[Files]:
    code = _IOTA.replace(b"s_endpgm", b'\t.file 1 "." "a.hip"\n\t.loc 1 2 1\ns_endpgm', 1)
    return [{"k.s": code + b'\n.include "b.inc"\n', "a.hip": b"// a\n// b\n", "b.inc": b"; c\n"}]


def _mcp() -> list[Files]:
    calls: list[list[dict[str, object]]] = [
        [{"tool": "analyze", "arguments": {"target": "k.s", "arch": "gfx942", "kernel": "*"}}],
        [{"tool": "lint", "arguments": {"target": "folder"}}],
        [{"tool": "analyze", "arguments": {"target": "k.py", "signature": "*fp32:16, i32, 64"}}],
        [
            {"tool": "analyze", "arguments": {"target": "k.s"}},
            {"tool": "show", "arguments": {"id": "k.s"}},
            {"tool": "code", "arguments": {"id": "k.s", "stage": "amdgcn"}},
        ],
    ]
    files = {"k.s": _IOTA, "folder/b.s": _IOTA, "k.py": _DEFINED}
    return [{**files, "calls.json": json.dumps(made).encode()} for made in calls]


def _emulate() -> list[Files]:
    launch = {"grid": [1, 1, 1], "block": [64, 1, 1], "arguments": "i32[64]=zeros"}
    codes = [_IOTA, *(next(iter(f.values())) for f in _of(DATA / "emulator", "*.s"))]
    return [{"k.s": code, "launch.json": json.dumps(launch).encode()} for code in codes]


_LOOP = b"""
  s_load_dwordx2 s[4:5], s[0:1], 0x0
  s_load_dword s6, s[0:1], 0x8
  v_lshlrev_b32 v1, 2, v0
  v_mov_b32 v3, 0
  s_waitcnt lgkmcnt(0)
.Lloop:
  global_load_dword v2, v1, s[4:5]
  v_add_u32 v1, 0x400, v1
  s_sub_u32 s6, s6, 1
  s_waitcnt vmcnt(0)
  ds_write_b32 v0, v2
  s_waitcnt lgkmcnt(0)
  s_barrier
  ds_read_b32 v2, v0
  s_waitcnt lgkmcnt(0)
  v_add_f32 v3, v3, v2
  s_cmp_lg_u32 s6, 0
  s_cbranch_scc1 .Lloop
  global_store_dword v1, v3, s[4:5]
"""


def _timed() -> list[Files]:
    from kinspect.inspector.isa.assembly import parse_text

    before, _, rest = _IOTA.partition(b"iota:\n")
    stated = rest[rest.index(b"s_endpgm") :]
    for small, large in ((b"size 8", b"size 16"), (b"gpr 2", b"gpr 8"), (b"gpr 4", b"gpr 16")):
        stated = stated.replace(small, large)
    looped = before + b"iota:\n" + _LOOP + stated.replace(b"offset 4", b"offset 8")
    others = _of(DATA / "isa", "[!c]*.gfx9[045][0a2]*.s")  # what calls by address is not executed
    codes = [looped, *(next(iter(files.values())) for files in others)]
    found = []
    for code in codes:
        resources = parse_text(code.decode(), "k.s").kernels[0].resources
        pointers = resources.pointers or ()
        words = [at for at in range(0, resources.kernarg_bytes or 0, 4) if at - 4 not in pointers]
        arguments = ["f32[65536]=zeros" if at in pointers else "i32 64" for at in words]
        launch = {
            "grid": "640,2", "block": "64", "lds": 16384, "clock": 1700.0, "gpu": None,
            "arguments": ", ".join(arguments) if code is not looped else "f32[65536], i32 20",
        }  # fmt: skip
        found.append({"k.s": code, "launch.json": json.dumps(launch).encode()})
    return found


def _ledger() -> list[Files]:
    change = {
        "name": "n",
        "kind": "variable",
        "target": "X",
        "before": None,
        "after": "1",
        "boot": "b",
    }
    return [{"e.json": json.dumps({"version": 1, "changes": [change, change]}).encode()}]


SEEDS: Mapping[str, Callable[[], Sequence[Files]]] = {
    "asm": _asm, "code_object": _objects, "bundle": _bundles, "ttgir": _ttgir, "ttir": _ttir,
    "folder": _folder, "report": _report, "archive": _archive, "kitrace": _kitrace,
    "inductor": _inductor, "cases": _cases, "pack": _pack, "baseline": _baseline,
    "settings": _settings, "rocprof_csv": _rocprof_csv,
    "rocprof_older_csv": _rocprof_older_csv, "proton": _proton, "rocprof_json": _rocprof_json,
    "rocpd": _rocpd, "rocprof_v1": _rocprof_v1, "torch": _torch, "att": _att, "compute": _compute,
    "fault": _fault, "gemm_sizes": _gemm_sizes, "metadata": _metadata, "note": _note,
    "mcp": _mcp, "emulate": _emulate, "time": _timed, "named": _named,
    "history": _history, "ledger": _ledger,
}  # fmt: skip
