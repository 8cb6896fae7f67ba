"""Disassembly of code objects, and of machine words in an assembly text, in the form of
`llvm-objdump -d`.

Two tools can do it: LLVM's library in the wheel `rocm-llvm-python` (the extra `kinspect[disasm]`,
no ROCm needed), and any `llvm-objdump` with the AMDGPU target. The wheel comes first where it is
installed, since it was installed for this; a tool that does not know the target, or fails, gives
way to the next one.

Words of a text are put into an object file of their own.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import re
import struct
import subprocess
import sys
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from types import MappingProxyType

from msgspec import Struct

from ...base.errors import KinspectError
from ...base.lifetimes import run_to_end
from ...base.named_files import file_bytes
from ...base.programs import find_program
from ...base.staging import scratch_folder
from ...model import Resources
from ..asm.machine_words import Decode, DecodedWords
from .codelisting import DecodedInstruction, count_data, format_listing
from .codeobject import CodeObject, read_code_object
from .eflags import target_of
from .elf import EM_AMDGPU, OSABI_HSA, read_elf

_TIMEOUT = 120.0  # seconds; 10 MB of code take about 10
_CODE_LIMIT = 1 << 27
_ERROR_LENGTH = 200
_NEWEST, _OLDEST = 22, 14
_WORKER = "kinspect.inspector.isa.objects.disasm_worker"
_ROCM_GLOB = "rocm*/llvm/bin/llvm-objdump"
_INSTALL_HINT = (
    "pip install 'kinspect[disasm]' (LLVM in a wheel, no ROCm needed), "
    "or put llvm-objdump on PATH (ROCm: /opt/rocm/llvm/bin; Debian: apt install llvm)"
)


class Disassembler(Struct, frozen=True):
    """A tool that disassembles: an `llvm-objdump`, or the wheel where `path` is None."""

    label: str
    path: Path | None = None


class Disassembly(Struct, frozen=True):
    """A disassembly in the form of `llvm-objdump -d`.

    `undecoded` counts the words that the tool took for data; in code they mean that it is too old.
    """

    text: str
    tool: str
    undecoded: int


class _ToolError(Exception):
    """A tool failed on the object; another may succeed."""


class NoDisassemblerError(KinspectError):
    """The object is sound, but nothing on this machine can decode its instructions."""


def find_disassemblers() -> tuple[Disassembler, ...]:
    """The disassemblers on this machine, in the order in which they are tried."""
    disassemblers = [Disassembler("rocm-llvm-python")] if _wheel_installed() else []
    real_paths: set[Path] = set()
    for path in _objdumps():
        real = path.resolve()
        if real not in real_paths:
            real_paths.add(real)
            disassemblers.append(Disassembler(str(path), path))
    return tuple(disassemblers)


def _wheel_installed() -> bool:
    try:
        return importlib.util.find_spec("rocm.llvm") is not None
    except (ImportError, ValueError):
        return False


def _objdumps() -> Iterator[Path]:
    names = ["llvm-objdump", *(f"llvm-objdump-{v}" for v in range(_NEWEST, _OLDEST - 1, -1))]
    for name in names:
        path = find_program(name)
        if path:
            yield Path(path)
    # /opt/rocm-7.2.0 before /opt/rocm-6.4.1; /opt/rocm itself is a link to one of them.
    opt = Path("/opt")
    yield from sorted(opt.glob(_ROCM_GLOB), key=_version, reverse=True)


def _version(path: Path) -> tuple[int, ...]:
    return tuple(int(n) for n in re.findall(r"\d+", path.parts[2]))


def disassemble(source: Path | str | bytes, arch: str | None = None) -> str:
    """Disassemble one code object.

    Args:
        source: the file, or its contents.
        arch: gfx name to decode for; None takes the one that the file states.

    Returns:
        Text in the form of `llvm-objdump -d`: a line `ADDRESS <symbol>:` per symbol, and per
        instruction a tab, the instruction, `// ADDRESS: WORDS` and, for branches, `<target>`.

    Raises:
        KinspectError: not a code object, or no tool here can disassemble it.
    """
    if isinstance(source, bytes):
        return disassemble_object(read_code_object(source, "code object"), arch).text
    path = Path(source)
    try:
        data = file_bytes(path)
    except OSError as error:
        raise KinspectError(f"{path}: {error.strerror or error}", "check the path") from error
    return disassemble_object(read_code_object(data, str(path)), arch).text


def disassemble_object(
    code: CodeObject,
    arch: str | None = None,
    tools: Sequence[Disassembler] | None = None,
    timeout: float = _TIMEOUT,
) -> Disassembly:
    """Disassemble a code object that is already read.

    `arch`: gfx name to decode for; None takes the object's; `tools`: the disassemblers to try, in
    order; None for those on this machine; `timeout`: limit for each tool, in seconds.

    Raises:
        NoDisassemblerError: no tool is there, or none can disassemble it.
        KinspectError: it has too much code, or does not say for which processor.
    """
    arch = arch or code.arch
    if arch is None:
        raise KinspectError(
            f"{code.name}: the file does not say which processor its code is for", "pass --arch"
        )
    size = sum(s.size for s in code.elf.sections if s.executable)
    if size > _CODE_LIMIT:
        raise KinspectError(
            f"{code.name}: {size} bytes of code, more than {_CODE_LIMIT}",
            "extract the kernels of interest first",
        )
    tools = find_disassemblers() if tools is None else tools
    if not tools:
        raise NoDisassemblerError(f"{code.name}: no disassembler found", _INSTALL_HINT)
    best, failures = _least_undecoded(code, arch, tools, timeout)
    if best is None:
        raise NoDisassemblerError(
            f"{code.name}: no disassembler here can decode {arch} ({'; '.join(failures)})",
            _INSTALL_HINT,
        )
    return best


def _least_undecoded(
    code: CodeObject, arch: str, tools: Sequence[Disassembler], timeout: float
) -> tuple[Disassembly | None, list[str]]:
    """The best result of the tools up to one that decodes everything, and why others failed."""
    best: Disassembly | None = None
    failures = []
    for tool in tools:
        try:
            disassembly = _run(tool, code, arch, timeout)
        except _ToolError as error:
            failures.append(f"{tool.label}: {error}")
            continue
        if best is None or disassembly.undecoded < best.undecoded:
            best = disassembly
        if not best.undecoded:
            break
    return best, failures


def _run(tool: Disassembler, code: CodeObject, arch: str, timeout: float) -> Disassembly:
    run = _run_wheel if tool.path is None else functools.partial(_run_objdump, tool.path)
    text = run(code, arch, timeout)
    return Disassembly(text, tool.label, count_data(text))


def _decoding_features(code: CodeObject, arch: str) -> list[str]:
    """The LLVM feature strings that the decoder needs beyond the processor's name."""
    target = target_of(arch)
    features = [f[-1] + f[:-1] for f in code.features]
    if target is None:
        return features
    if target.encoding.true16:
        features.append("+real-true16")
    waves = {k.wave_size for k in code.kernels.values()}
    if target.encoding.wave32 and waves == {64}:
        features.append("+wavefrontsize64")
    return features


def _run_objdump(path: Path, code: CodeObject, arch: str, timeout: float) -> str:
    """The listing by an llvm-objdump."""
    command = [str(path), "-d"]
    features = _decoding_features(code, arch)
    if features:
        command.append(f"--mattr={','.join(features)}")
    if arch != code.arch:
        command.append(f"--mcpu={arch}")
    with scratch_folder() as folder:
        file = folder / "code.hsaco"
        file.write_bytes(code.elf.data)
        output = _execute([*command, str(file)], b"", folder, timeout)
    # The first line names the temporary file.
    text = output.decode("utf-8", "replace").replace(str(file), Path(code.name).name, 1)
    if "Disassembly of section" not in text:
        raise _ToolError("printed no disassembly")
    return text


def _run_wheel(code: CodeObject, arch: str, timeout: float) -> str:
    """The listing by LLVM's library in the wheel, run in a process of its own."""
    sections = [s for s in code.elf.sections if s.executable and s.size]
    request = {
        "arch": arch,
        "features": ",".join(_decoding_features(code, arch)),
        "sections": [{"address": s.address, "size": s.size} for s in sections],
    }
    contents = [code.elf.bytes_of(s) for s in sections]
    line = json.dumps(request).encode() + b"\n"
    with scratch_folder() as folder:
        command = [sys.executable, "-m", _WORKER]
        output = _execute(command, b"".join((line, *contents)), folder, timeout)
    decoded = list(_decoded(output.decode("utf-8", "replace"), len(sections)))
    return format_listing(code, sections, contents, decoded)


def _decoded(output: str, count: int) -> Iterator[list[DecodedInstruction]]:
    """Yields the instructions of each section in the worker's output."""
    section_texts = output.split("\n\n") if count else []
    if len(section_texts) < count:
        raise _ToolError("ended before all sections were decoded")
    for section_text in section_texts[:count]:
        rows = (line.split("\t", 1) for line in section_text.strip("\n").split("\n") if line)
        yield [DecodedInstruction(int(size), text) for size, text in rows]


def _execute(command: list[str], data: bytes, folder: Path, timeout: float) -> bytes:
    """Run a tool in an empty folder (the worker must not import what lies in the user's)."""
    environment = {**os.environ, "LC_ALL": "C", "PYTHONSAFEPATH": "1"}
    try:
        process = run_to_end(command, timeout, data=data, folder=folder, environment=environment)
    except subprocess.TimeoutExpired as error:
        raise _ToolError(f"no result after {timeout:.0f} s") from error
    except OSError as error:
        raise _ToolError(error.strerror or str(error)) from error
    messages = " ".join(process.stderr.decode("utf-8", "replace").split())[:_ERROR_LENGTH]
    # For a processor that it does not know, LLVM decodes for its default one, or crashes.
    if process.returncode or "not a recognized processor" in messages:
        raise _ToolError(messages or f"ended with status {process.returncode}")
    return process.stdout


_WORD = 4
_NOP = 0xBF800000
_GAP = 8
"""Words between two runs, more than any instruction has: none reaches into the next run."""
_ROW = re.compile(r"\t(.*?)\s*// ([0-9A-F]{12,16}): ((?:[0-9A-F]{8} ?)+)")

_HEADER = struct.Struct("<4sBBBBB7xHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_NAMES = b"\0.text\0.shstrtab\0"


def decoder(arch: str | None, wave_sizes: Collection[int | None], notes: list[str]) -> Decode:
    """A decoder of machine words for a target.

    `wave_sizes`: wave sizes of the kernels that the words belong to; `notes`: list to which the
    reason is added where nothing can be decoded.
    """

    def decode(runs: Sequence[Sequence[int]]) -> Sequence[DecodedWords] | None:
        count = sum(map(len, runs))
        words = f"{count} words of code stand as data in the text and are not decoded"
        target = target_of(arch)
        if arch is None or target is None:
            notes.append(f"{words}: the target is not known")
            return None
        try:
            return _decode(runs, _code_object(runs, arch, target.mach, wave_sizes))
        except KinspectError as error:
            notes.append(f"{words}: {error.message}")
            return None

    return decode


def _decode(runs: Sequence[Sequence[int]], code: CodeObject) -> Sequence[DecodedWords]:
    """(number of words, text) of the instructions in each run; `code` holds the runs."""
    text = disassemble_object(code).text
    instruction_at: dict[int, tuple[int, str]] = {}
    for match in _ROW.finditer(text):
        row_text = "" if match[1].startswith(".") else match[1]
        instruction_at[int(match[2], 16)] = (len(match[3].split()), row_text)
    decoded = []
    address = 0
    for run in runs:
        rows: list[tuple[int, str]] = []
        words_read = 0
        while words_read < len(run):
            # A listing leaves out runs of zeros.
            size, instruction = instruction_at.get(address + _WORD * words_read, (1, ""))
            rows.append((size, instruction) if words_read + size <= len(run) else (1, ""))
            words_read += rows[-1][0]
        decoded.append(rows)
        address += _WORD * (len(run) + _GAP)
    return decoded


def _code_object(
    runs: Sequence[Sequence[int]], arch: str, mach: int, wave_sizes: Collection[int | None]
) -> CodeObject:
    """A code object that holds the runs, each followed by a gap."""
    gap = [_NOP] * _GAP
    words = [word for run in runs for word in (*run, *gap)]
    return CodeObject(
        name="the words in the text",
        arch=arch,
        features=(),
        version=None,
        generic_version=None,
        kernels=MappingProxyType(
            {str(i): Resources(wave_size=size) for i, size in enumerate(wave_sizes)}
        ),
        descriptors=MappingProxyType({}),
        functions=(),
        notes=(),
        elf=read_elf(_elf(struct.pack(f"<{len(words)}I", *words), mach), "the words in the text"),
    )


def _elf(code: bytes, mach: int) -> bytes:
    """The smallest ELF file that holds code for one target: `.text` and the section names."""
    code_offset = _HEADER.size
    names_offset = code_offset + len(code)
    table_offset = names_offset + len(_NAMES)
    header = _HEADER.pack(
        *(b"\x7fELF", 2, 1, 1, OSABI_HSA, 2),  # 64 bits, little-endian; code object v4
        *(3, EM_AMDGPU, 1, 0, 0, table_offset, mach),  # ET_DYN
        *(_HEADER.size, 0, 0, _SECTION.size, 3, 2),
    )
    sections = (
        _SECTION.pack(*[0] * 10),
        # SHT_PROGBITS; SHF_ALLOC and SHF_EXECINSTR
        _SECTION.pack(_NAMES.index(b".text"), 1, 6, 0, code_offset, len(code), 0, 0, 256, 0),
        _SECTION.pack(_NAMES.index(b".shstrtab"), 3, 0, 0, names_offset, len(_NAMES), 0, 0, 1, 0),
    )
    return b"".join((header, code, _NAMES, *sections))
