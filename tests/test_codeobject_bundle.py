"""Fat binaries: the code objects inside offload bundles and host files."""

from __future__ import annotations

import importlib.util
import shutil
import struct
import subprocess
import zlib
from pathlib import Path

import pytest
from kinspect.inspector.base.errors import KinspectError
from kinspect.inspector.isa.objects.bundle import extract_code_objects
from kinspect.inspector.isa.objects.codeobject import read_code_object

DATA = Path(__file__).parent / "data" / "elf"


def tool(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed")
    return path


def output(*command: str | Path) -> str:
    return subprocess.run(
        list(map(str, command)), capture_output=True, text=True, check=True, timeout=60
    ).stdout


def images() -> list[tuple[str, bytes]]:
    return [
        ("hipv4-amdgcn-amd-amdhsa--gfx942", (DATA / "two.gfx942.hsaco").read_bytes()),
        ("hipv4-amdgcn-amd-amdhsa--gfx1201", (DATA / "two.gfx1201.hsaco").read_bytes()),
    ]


def bundle(entries: list[tuple[str, bytes]]) -> bytes:
    header = b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", len(entries))
    size = len(header) + sum(24 + len(t) for t, _ in entries)
    table, body = b"", b""
    for triple, image in entries:
        table += struct.pack("<QQQ", size + len(body), len(image), len(triple)) + triple.encode()
        body += image
    return header + table + body


def compressed(plain: bytes, version: int) -> bytes:
    body = zlib.compress(plain)
    sizes = {1: "<4sHHI8x", 2: "<4sHHII8x", 3: "<4sHHQQ8x"}[version]
    total = struct.calcsize(sizes) + len(body)
    fields = (len(plain),) if version == 1 else (total, len(plain))
    return struct.pack(sizes, b"CCOB", version, 0, *fields) + body


def test_a_bare_object_is_its_own_image() -> None:
    data = images()[0][1]
    assert extract_code_objects(data, "x") == [("amdgcn-amd-amdhsa--gfx942", data)]


@pytest.mark.parametrize("options", [(), ("-compress",)], ids=["plain", "compressed"])
def test_bundles_of_clang(tmp_path: Path, options: tuple[str, ...]) -> None:
    bundler = tool("clang-offload-bundler-22")
    (tmp_path / "host").write_bytes(b"host")
    targets = ",".join(["host-x86_64-unknown-linux-gnu", *(t for t, _ in images())])
    made = tmp_path / "made"
    output(
        bundler, "-type=o", f"-targets={targets}", *options, f"-input={tmp_path / 'host'}",
        f"-input={DATA / 'two.gfx942.hsaco'}", f"-input={DATA / 'two.gfx1201.hsaco'}",
        f"-output={made}",
    )  # fmt: skip
    data = made.read_bytes()
    if data[:4] == b"CCOB" and data[6] == 1 and not has_zstd():
        with pytest.raises(KinspectError, match=r"zstd.*pip install zstandard"):
            extract_code_objects(data, "made")
    else:
        assert extract_code_objects(data, "made") == images()


def has_zstd() -> bool:
    return any(
        importlib.util.find_spec(m.split(".")[0]) is not None for m in ("zstandard", "backports")
    ) or bool(importlib.util.find_spec("compression"))


@pytest.mark.parametrize("version", [1, 2, 3])
def test_compressed_bundles(version: int) -> None:
    first, second = bundle(images()[:1]), bundle([("host-x86_64--", b"h"), *images()[1:]])
    both = compressed(first, version)
    both += bytes(-len(both) % 4096) + compressed(second, version)
    assert extract_code_objects(both, "x") == images()


def test_host_executable(tmp_path: Path) -> None:
    clang = tool("clang-22")
    one, two = bundle(images()[:1]), compressed(bundle(images()[1:]), 3)
    (tmp_path / "fatbin").write_bytes(one + bytes(-len(one) % 4096) + two + bytes(50))
    (tmp_path / "host.s").write_text(
        '.section .hip_fatbin,"a",@progbits\n.p2align 12\n.incbin "fatbin"\n.text\nnop\n'
    )
    subprocess.run(
        [clang, "-target", "x86_64-linux-gnu", "-c", "host.s", "-o", "host.o"],
        cwd=tmp_path,
        check=True,
        timeout=60,
    )
    assert extract_code_objects((tmp_path / "host.o").read_bytes(), "host.o") == images()
    with pytest.raises(KinspectError, match="another machine"):
        read_code_object((tmp_path / "host.o").read_bytes(), "host.o")


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "the file is empty"),
        (b"hello", "neither an ELF file nor a clang offload bundle"),
        (b"!<arch>\nx", "static library.*llvm-ar"),
        (b"# __CLANG_OFFLOAD_BUNDLE____START__", "assembly texts.*rename"),
        (b"__CLANG_OFFLOAD_BUNDLE__", "cut off"),
        (b"__CLANG_OFFLOAD_BUNDLE__" + bytes([255] * 8), "announces 18446744073709551615"),
        (bundle([("host-x86_64--", b"abc")]), "without code for AMD GPUs"),
        (bundle([("hip-amdgcn-amd-amdhsa--gfx942", b"BC\xc0\xde...")]), "bitcode.*linked"),
        (bundle(images())[:-1], "lies outside it"),
        (b"CCOB\x09\x00\x00\x00", "unknown version 9"),
        (struct.pack("<4sHHI8x", b"CCOB", 1, 7, 10), "unknown method 7"),
        (struct.pack("<4sHHI8x", b"CCOB", 1, 0, 10) + b"junk", "does not decompress"),
        (struct.pack("<4sHHQQ8x", b"CCOB", 3, 0, 1 << 60, 10), "ends at byte"),
        (struct.pack("<4sHHQQ8x", b"CCOB", 3, 0, 32, 1 << 60), "inflates to far more"),
    ],
)
def test_bundle_errors(data: bytes, says: str) -> None:
    with pytest.raises(KinspectError, match=says) as caught:
        extract_code_objects(data, "file")
    assert caught.value.hint
    assert "\n" not in str(caught.value)
