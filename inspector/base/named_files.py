"""Opens files to read: regular ones alone, up to a size; those that data names, where they may lie.

What the user names is read wherever it lies. What a file names (source lines, code objects, packs)
is read in the checkouts of the targets and of the working folder, in the user's own caches and
below `--source-root`, in installed packages where the user ran the code that names them, and
nowhere else: a stranger's file must not carry /etc/passwd into a report.
"""

from __future__ import annotations

import errno
import functools
import linecache
import os
import stat
import tempfile
from collections.abc import Callable, Iterable
from io import BufferedReader
from pathlib import Path

from .errors import KinspectError

MOST_BYTES = 1 << 30
"""Of any file that is read whole."""
MOST_SOURCE_BYTES = 16 << 20
"""Of a file that data names."""
OPTION = "--source-root"
VARIABLE = "KINSPECT_SOURCE_ROOT"
"""Folders of `--source-root`, for child processes and programs too, as PATH has folders."""
_OUTSIDE = f"outside the checkouts of the targets; {OPTION} FOLDER allows more"
_PIPES = ("/dev/stdin", "/dev/fd/", "/proc/self/fd/")
"""Names of pipes that a shell hands over: `<(command)`."""
_KERNEL_FOLDERS = tuple(map(Path, ("/proc", "/sys", "/dev")))
PACKAGES = frozenset({"site-packages", "dist-packages"})
_MOST_LISTED = 3
"""Files that a note names."""
_PIECE = 1 << 20


class _Places:
    """Where files that data names may lie; one for the process, forks inherit it."""

    folders: tuple[Path, ...] = ()
    only: Path | None = None
    packages = False


def allow(*folders: Path) -> None:
    """Lets data name files in these folders, or these files."""
    resolved = [Path(os.path.realpath(folder)) for folder in folders]
    _Places.folders = tuple(dict.fromkeys((*_Places.folders, *resolved)))


def allow_target(path: Path) -> None:
    """Lets data name files in the checkout of a target, or in its folder where it is in none.

    A link is where it lies, not where it leads.
    """
    folder = Path(os.path.realpath(path if path.is_dir() else path.parent))
    allow(checkout_of(folder))
    if any(folder.is_relative_to(cache) for cache in _own_caches()):
        allow_packages()


def allow_packages() -> None:
    """Lets data name Python files of installed packages: the user ran the code that names them."""
    _Places.packages = True


def allow_run(*files: Path | str) -> None:
    """Lets data name what code that the user runs names: these files' checkouts, and packages."""
    for file in dict.fromkeys(files):
        allow_target(Path(file))
    allow_packages()


def state() -> tuple[tuple[Path, ...], bool]:
    """What `allow…` has allowed, for `restore` in another process."""
    return _Places.folders, _Places.packages


def restore(allowed: tuple[tuple[Path, ...], bool]) -> None:
    """Allows what another process of this run has allowed."""
    allow(*allowed[0])
    _Places.packages |= allowed[1]


def confine(root: Path) -> None:
    """Lets data name files in this folder alone from now on, whatever is allowed."""
    _Places.only = Path(os.path.realpath(root))


def opened(path: Path | str, most: int | None = None, *, pipes: bool = False) -> BufferedReader:
    """Opens a file that the user named, or that kinspect made; never waits.

    Args:
        path: the file; links are followed.
        most: bytes that it may have; None: any number.
        pipes: whether a pipe of the shell's (`<(command)`, `/dev/stdin`) is taken too.

    Raises:
        OSError: it cannot be opened, is no regular file, or is larger.
    """
    allow_pipe = pipes and str(path).startswith(_PIPES)
    _check(os.stat(path), path, most, allow_pipe)  # opening a device may do something
    flags = os.O_RDONLY
    for name in ("O_NONBLOCK", "O_CLOEXEC", "O_NOCTTY"):
        flags |= getattr(os, name, 0)
    descriptor = os.open(path, flags)
    try:
        _check(os.fstat(descriptor), path, most, allow_pipe)
        os.set_blocking(descriptor, True)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def _check(status: os.stat_result, path: Path | str, most: int | None, allow_pipe: bool) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(status.st_mode) and not (allow_pipe and stat.S_ISFIFO(status.st_mode)):
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    if most is not None and status.st_size > most:
        raise _too_large(path, most)


def _too_large(path: Path | str, most: int) -> OSError:
    size = f"{most >> 20} MiB" if most >= 1 << 20 else f"{most:,} bytes"
    return OSError(errno.EFBIG, f"larger than {size}", str(path))


def file_bytes(path: Path | str, most: int = MOST_BYTES, *, pipes: bool = False) -> bytes:
    """The contents of a file that the user named, or that kinspect made.

    Raises:
        OSError: as `opened` does.
    """
    with opened(path, most, pipes=pipes) as stream:
        if stream.seekable():
            return stream.read(os.fstat(stream.fileno()).st_size)
        pieces = bytearray()
        while piece := stream.read(min(_PIECE, most + 1 - len(pieces))):
            pieces += piece
            if len(pieces) > most:
                raise _too_large(path, most)
        return bytes(pieces)


def file_text(path: Path | str, most: int = MOST_BYTES) -> str:
    """The text of a file that the user named, or that kinspect made; wrong UTF-8 is replaced.

    Raises:
        OSError: as `opened` does.
    """
    return file_bytes(path, most).decode("utf-8", "replace")


def opened_named(name: Path | str, most: int | None) -> BufferedReader:
    """Opens a file that data names.

    Args:
        name: the file, as the data has it; relative to the working folder.
        most: bytes that it may have; None: any number.

    Raises:
        OSError: as `opened` does; or it lies where data may not name files.
        ValueError: no file can have this name.
    """
    place = Path(os.path.realpath(name))
    if not _is_allowed(place):
        raise PermissionError(errno.EACCES, _OUTSIDE, str(name))
    stream = opened(place, most)
    if not _is_at(stream, place):  # a link was put there meanwhile
        stream.close()
        raise PermissionError(errno.EACCES, _OUTSIDE, str(name))
    return stream


def _is_at(stream: BufferedReader, place: Path) -> bool:
    """Whether the open file is the one at a resolved path."""
    try:
        return os.readlink(f"/proc/self/fd/{stream.fileno()}") == str(place)
    except OSError:  # not Linux
        return os.path.samestat(os.fstat(stream.fileno()), os.lstat(place))


def checked(path: Path, by: Path, written: str | None = None) -> Path:
    """Returns the path of a file that a settings' file or a pack names, if it may be used.

    Args:
        written: the suffix that it must have to be written; None: it is read.

    Raises:
        KinspectError: it is hidden (`.github` is not), or lies outside the checkout of the file
            that names it; what is read may lie in those of the targets too.
    """
    hint = "name it on the command line"
    place = Path(os.path.realpath(path))
    checkout = checkout_of(Path(os.path.realpath(by)).parent)
    is_there = place.is_relative_to(checkout) and not _is_of_kernel(place)
    if not is_there and (written is not None or not _is_allowed(place)):
        raise KinspectError(f"{path}: outside the checkout of {by}, which names it", hint)
    if is_there and any(
        part.startswith(".") and part != ".github" for part in place.relative_to(checkout).parts
    ):
        raise KinspectError(f"{path}: hidden, and named by {by}", hint)
    if written is not None and place.suffix != written:
        raise KinspectError(f"{path}: not a {written} file, and named by {by}", hint)
    return path


def named_bytes(name: Path | str, most: int = MOST_SOURCE_BYTES) -> bytes | None:
    """The contents of a file that data names; None where it is not there or may not be read."""
    try:
        with opened_named(name, most) as stream:
            return stream.read(os.fstat(stream.fileno()).st_size)
    except (OSError, ValueError):
        return None


def named_text(name: Path | str, most: int = MOST_SOURCE_BYTES) -> str | None:
    """The text of a file that data names; None where it is not there or may not be read."""
    data = named_bytes(name, most)
    return None if data is None else data.decode("utf-8", "replace")


def line_reader() -> Callable[[str, int], str | None]:
    """Returns a function of file and line that reads source lines, each file once; None: unread."""
    files: dict[str, list[str]] = {}

    def read(file: str, line: int) -> str | None:
        if file not in files:
            files[file] = (named_text(file) or "").splitlines()
        lines = files[file]
        return lines[line - 1] if 0 < line <= len(lines) else None

    return read


_shared_reader = functools.cache(line_reader)


def source_line(file: str, line: int) -> str:
    """A line of a source without its indent, each file read once a process; "": unread.

    What a notebook or another program has put into `linecache` counts as a file.
    """
    entry = linecache.cache.get(file, ())
    if len(entry) == 4 and entry[1] is None and 0 < line <= len(entry[2]):
        return entry[2][line - 1].strip()
    return (_shared_reader()(file, line) or "").strip()


def is_named(name: Path | str) -> bool:
    """Whether a name in data is that of a regular file that may be read."""
    try:
        place = Path(os.path.realpath(name))
        return _is_allowed(place) and place.is_file()
    except (OSError, ValueError):
        return False


def is_of_folder(file: Path) -> bool:
    """Whether what was found in a folder that the user named is a file of it: no link out of it."""
    return is_named(file) if file.is_symlink() else file.is_file()


def left_out(names: Iterable[Path | str]) -> str | None:
    """One sentence on the files that data names and that may not be read; None without any.

    Those that are not on this machine are not meant.
    """
    outside = [str(name) for name in dict.fromkeys(names) if _is_outside(name)]
    if not outside:
        return None
    others = len(outside) - _MOST_LISTED
    listed = ", ".join(outside[:_MOST_LISTED]) + (f" and {others} more" if others > 0 else "")
    where = f"outside {_Places.only}" if _Places.only is not None else _OUTSIDE
    return f"sources that were not read: {listed} ({where})"


def _is_outside(name: Path | str) -> bool:
    try:
        place = Path(os.path.realpath(name))
        if _is_allowed(place):
            return False
        return os.path.isabs(name) if _Places.only is not None else place.is_file()
    except (OSError, ValueError):
        return False


def _is_allowed(place: Path) -> bool:
    """Whether data may name the file at a resolved path."""
    if _is_of_kernel(place):
        return False
    if _Places.only is not None:
        return _shows(Path(os.path.realpath(_Places.only)), place)
    if _Places.packages and place.suffix == ".py" and not PACKAGES.isdisjoint(place.parts):
        return True
    if any(place.is_relative_to(folder) for folder in _stated()):
        return True
    return any(_holds(folder, place) for folder in _projects())


def _is_of_kernel(place: Path) -> bool:
    return any(place.is_relative_to(folder) for folder in _KERNEL_FOLDERS)


def _stated() -> list[Path]:
    """The folders of `--source-root`."""
    folders = filter(None, os.environ.get(VARIABLE, "").split(os.pathsep))
    return [Path(os.path.realpath(folder)) for folder in folders]


def _projects() -> tuple[Path, ...]:
    """The other folders in which data may name files."""
    return (*_Places.folders, _working_checkout(os.getcwd()), *_own_caches())


def readable() -> list[str]:
    """The folders in which data may name files, for the guest, which reads by itself."""
    if _Places.only is not None:
        return [str(_Places.only)]
    return [*map(str, _stated()), *(str(f) for f in _projects() if not _is_wide(f))]


_SHOWN = frozenset((".venv", ".triton", ".cache", ".tox", ".nox"))
"""Hidden folders that hold sources and what compilers wrote, beside tokens and the like."""
_SOURCES = frozenset((
    ".py", ".pyi", ".c", ".cc", ".cpp", ".cxx", ".cu", ".cuh", ".h", ".hip", ".hpp", ".inc", ".S",
    ".s", ".amdgcn", ".best_config", ".hsaco", ".ll", ".llir", ".mlir", ".ttgir", ".ttir",
))  # fmt: skip


def _shows(folder: Path, place: Path) -> bool:
    """Whether a file lies in a folder, and is not hidden there: .git/config, .env, .netrc."""
    if not place.is_relative_to(folder):
        return False
    hidden = {part for part in place.relative_to(folder).parts if part.startswith(".")}
    return not hidden or (hidden <= _SHOWN and place.suffix in _SOURCES)


def _holds(folder: Path, place: Path) -> bool:
    """The same; of folders that hold more than a project, not further below."""
    if _is_wide(folder) and place.parent != folder:
        return False
    return _shows(folder, place)


def _is_wide(folder: Path) -> bool:
    """Whether it is the user's home, above it, or a folder that all may write to, as /tmp."""
    if folder in _wide(os.path.expanduser("~")):
        return True
    try:
        shared = bool(os.stat(folder).st_mode & stat.S_IWOTH)
    except OSError:
        return False
    return shared and not is_users_own(folder, ".git")


@functools.lru_cache(maxsize=8)
def _wide(user_home: str) -> frozenset[Path]:
    """The folders that hold more than a project: the user's home and those above it."""
    home = Path(os.path.realpath(user_home))
    return frozenset((home, *home.parents, Path(os.sep)))


def checkout_of(folder: Path) -> Path:
    """The nearest folder above with `.git`, below the user's home; without one the folder."""
    for parent in (folder, *folder.parents):
        if parent in _wide(os.path.expanduser("~")):
            break
        if is_users_own(parent, ".git"):
            return parent
    return folder


def is_users_own(folder: Path, name: str) -> bool:
    """Whether a folder has a file that the user made, or who owns the folder.

    In a folder that all may write to, such as /tmp, anyone could have made it.
    """
    try:
        made_by, around = os.lstat(folder / name).st_uid, os.stat(folder)
    except OSError:
        return False
    if made_by == os.getuid():
        return True
    return made_by == around.st_uid and not around.st_mode & stat.S_IWOTH


@functools.lru_cache(maxsize=8)
def _working_checkout(folder: str) -> Path:
    return checkout_of(Path(os.path.realpath(folder)))


def own_cache() -> Path:
    """`KINSPECT_CACHE_DIR`, or the user's cache folder for kinspect."""
    override = os.environ.get("KINSPECT_CACHE_DIR")
    if override:
        return Path(override)
    import platformdirs  # only where it is needed

    return platformdirs.user_cache_path("kinspect")


def _own_caches() -> tuple[Path, ...]:
    """The caches of kinspect, Triton and Inductor, where they are the user's own."""
    stated = os.environ.get
    triton_home = os.path.join(stated("TRITON_HOME") or os.path.expanduser("~"), ".triton")
    candidates = (
        str(own_cache()),
        stated("TRITON_CACHE_DIR") or triton_home,
        stated("TORCHINDUCTOR_CACHE_DIR") or _inductor_cache(),
    )
    return tuple(Path(os.path.realpath(folder)) for folder in candidates if _is_own(folder))


def _inductor_cache() -> str:
    import getpass

    try:
        user = getpass.getuser()
    except (KeyError, OSError, ImportError):
        return ""
    return os.path.join(tempfile.gettempdir(), f"torchinductor_{user}")


def _is_own(folder: str) -> bool:
    """Whether a folder is the user's, and no link that anyone could have made."""
    try:
        around = os.stat(os.path.dirname(os.path.abspath(folder))).st_mode
        is_trap = os.path.islink(folder) and around & stat.S_IWOTH
        return bool(folder) and not is_trap and os.stat(folder).st_uid == os.getuid()
    except (OSError, AttributeError):
        return False
