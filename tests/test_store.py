"""The artifact store: entries appear whole or not at all, and damage is noticed."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from kinspect.inspector.base.errors import KinspectError
from kinspect.inspector.base.named_files import own_cache
from kinspect.inspector.base.staging import LOCK, STAGING, STALE_SECONDS
from kinspect.inspector.compile.store import (
    MANIFEST,
    Store,
    StoreEntry,
    artifact_key,
    sealed,
    unsealed,
)

KEY = "ab" + "0" * 62
INPUTS: dict[str, Any] = {
    "ttir": "module {}",
    "options": {"num_warps": 4},
    "arch": "gfx942",
    "wave_size": 64,
    "triton_key": "t",
    "environment": {"A": "1"},
    "passes": False,
}


def put(store: Store, key: str = KEY, text: str = "module {}") -> StoreEntry:
    with store.stage() as folder:
        (folder / "kernel.ttir").write_text(text)
        return store.put(key, folder, {"ttir": "kernel.ttir"}, {"notes": ["n"]})


def test_round_trip(tmp_path: Path) -> None:
    store = Store(tmp_path / "not" / "there" / "yet")
    assert store.get(KEY) is None
    assert not store.root.exists()  # looking does not write
    entry = put(store)
    assert store.get(KEY) == entry
    assert store.get(KEY)
    assert entry.artifacts["ttir"].path.read_text() == "module {}"
    assert entry.artifacts["ttir"].size == len("module {}")
    assert entry.facts == {"notes": ["n"]}
    assert not list((store.root / STAGING).iterdir())


def test_a_staged_folder_that_is_not_put_is_gone(tmp_path: Path) -> None:
    store = Store(tmp_path)

    def fail() -> None:
        with store.stage() as folder:
            (folder / "half").write_text("x")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert not list((tmp_path / STAGING).iterdir())


def _truncate(folder: Path) -> None:
    (folder / "kernel.ttir").write_text("mod")


def _lose_file(folder: Path) -> None:
    (folder / "kernel.ttir").unlink()


def _lose_manifest(folder: Path) -> None:
    (folder / MANIFEST).unlink()


def _garble_manifest(folder: Path) -> None:
    (folder / MANIFEST).write_bytes(b'{"files": \xff')


def _empty_manifest(folder: Path) -> None:
    (folder / MANIFEST).write_text("[]")


def _nest_manifest(folder: Path) -> None:
    (folder / MANIFEST).write_text("[" * 100_000)


def _change_a_fact(folder: Path) -> None:
    manifest = folder / MANIFEST
    manifest.write_text(manifest.read_text().replace('"facts"', '"facta"'))


def _swap_key(folder: Path) -> None:
    manifest = folder / MANIFEST
    value = unsealed(manifest.read_bytes())
    manifest.write_text(sealed({**value, "key": "cd" + KEY[2:]}))


@pytest.mark.parametrize(
    "damage",
    [
        *(_truncate, _lose_file, _lose_manifest, _garble_manifest, _empty_manifest),
        *(_nest_manifest, _change_a_fact, _swap_key),
    ],
)
def test_damage_counts_as_absence_and_is_mended(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    store = Store(tmp_path)
    folder = put(store).artifacts["ttir"].path.parent
    damage(folder)
    assert store.get(KEY) is None
    assert put(store).artifacts["ttir"].path.read_text() == "module {}"
    assert store.get(KEY)


def test_the_content_is_checked_where_the_size_tells_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path)
    path = put(store).artifacts["ttir"].path
    path.write_text("MODULE {}")
    assert store.get(KEY) is None
    assert store.get(KEY) is None
    assert store.holds(KEY)
    assert put(store).artifacts["ttir"].path.read_text() == "module {}"


def test_a_manifest_leads_nowhere_else(tmp_path: Path) -> None:
    store = Store(tmp_path)
    folder = put(store).artifacts["ttir"].path.parent
    (folder.parent / "other").write_text("module {}")
    manifest = unsealed((folder / MANIFEST).read_bytes())
    manifest["files"]["ttir"]["name"] = "../other"
    (folder / MANIFEST).write_text(sealed(manifest))
    assert store.get(KEY) is None


def test_a_note_that_was_changed_is_none(tmp_path: Path) -> None:
    store = Store(tmp_path)
    folder = put(store).artifacts["ttir"].path.parent
    store.note(KEY, "figures", b"vgprs 12")
    assert store.noted(KEY, "figures") == b"vgprs 12"
    stored = (folder / "figures").read_bytes()
    (folder / "figures").write_bytes(stored.replace(b"12", b"92"))
    assert store.noted(KEY, "figures") is None


def test_the_first_writer_wins(tmp_path: Path) -> None:
    store = Store(tmp_path)
    put(store, text="first")
    assert put(store, text="later").artifacts["ttir"].path.read_text() == "first"
    store.remove(KEY)
    assert store.get(KEY) is None
    assert put(store, text="later").artifacts["ttir"].path.read_text() == "later"


def test_many_writers_of_one_key(tmp_path: Path) -> None:
    store = Store(tmp_path)
    barrier = threading.Barrier(8)

    def write(n: int) -> str:
        barrier.wait()
        if n % 4 == 0:  # some of them replace what they find, as after damage
            store.remove(KEY)
        return put(store, text="the same").artifacts["ttir"].sha256

    for _ in range(20):
        with ThreadPoolExecutor(8) as executor:
            assert len(set(executor.map(write, range(8)))) == 1
        assert store.get(KEY)
    assert not list((tmp_path / STAGING).iterdir())


KILLED = """
import os, signal, sys
from pathlib import Path
from kinspect.inspector.compile import store as module
store = module.Store(Path(sys.argv[1]))
real = os.rename
def die(*names):
    os.kill(os.getpid(), signal.SIGKILL)
os.rename = die  # as near to the end of put() as a kill can come
with store.stage() as folder:
    (folder / "kernel.ttir").write_text("module {}")
    store.put(sys.argv[2], folder, {"ttir": "kernel.ttir"})
"""


def test_a_killed_writer_leaves_no_entry(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), KEY], check=False)
    assert done.returncode == -signal.SIGKILL
    store = Store(tmp_path)
    assert store.get(KEY) is None
    assert list((tmp_path / STAGING).iterdir())
    assert store.tidy() > len("module {}")  # the manifest besides
    assert not list((tmp_path / STAGING).iterdir())
    assert put(store) == store.get(KEY)


def test_what_is_being_written_is_left_alone(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with store.stage() as folder:
        old = folder.stat().st_mtime - STALE_SECONDS - 1
        os.utime(folder, (old, old))
        assert Store(tmp_path).tidy() == 0
        assert folder.exists()
    assert not list((tmp_path / STAGING).iterdir())


def test_what_others_put_there_stays(tmp_path: Path) -> None:
    """KINSPECT_CACHE_DIR may name a folder of the user's own."""
    store = Store(tmp_path)
    put(store)
    for name in ("site", "1-abcdefgh", "notes.lock"):
        path = tmp_path / STAGING / name
        path.mkdir()
        old = path.stat().st_mtime - STALE_SECONDS - 1
        os.utime(path, (old, old))
    assert store.tidy() == 0
    assert len(list((tmp_path / STAGING).iterdir())) == 3


def test_where_the_file_system_has_no_locks_age_decides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    store = Store(tmp_path)
    with store.stage() as folder:
        lock = folder.with_name(f"{folder.name}{LOCK}")
        assert store.tidy() == 0
        old = lock.stat().st_mtime - STALE_SECONDS - 1
        os.utime(lock, (old, old))
        store.tidy()
        assert not folder.exists()
        assert not lock.exists()


def test_notes_go_with_their_entry(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.note(KEY, "figures-1.json", b"lost")  # no entry: nothing to note it beside
    assert store.noted(KEY, "figures-1.json") is None
    entry = put(store)
    store.note(KEY, "figures-1.json", b"first")
    store.note(KEY, "figures-1.json", b"second")
    assert store.noted(KEY, "figures-1.json") == b"second"
    assert store.get(KEY) == entry
    assert store.get(KEY)
    store.remove(KEY)
    assert store.noted(KEY, "figures-1.json") is None
    assert not list((tmp_path / STAGING).iterdir())


def test_prune_deletes_the_oldest(tmp_path: Path) -> None:
    store = Store(tmp_path)
    keys = [f"{n:02x}" + "0" * 62 for n in range(4)]
    for age, key in enumerate(keys):
        folder = put(store, key, "x" * 1000).artifacts["ttir"].path.parent
        os.utime(folder, (10**9 + age, 10**9 + age))
    size = sum(f.stat().st_size for f in folder.iterdir())
    assert store.prune(2 * size) == 2 * size
    assert [store.get(key) is not None for key in keys] == [False, False, True, True]


@pytest.mark.parametrize(
    "change",
    [
        {"ttir": "module { }"},
        {"options": {"num_warps": 8}},
        {"options": {"num_warps": 4, "num_stages": 2}},
        {"arch": "gfx950"},
        {"wave_size": 32},
        {"triton_key": "u"},
        {"environment": {"A": "2"}},
        {"environment": {}},
        {"passes": True},
    ],
)
def test_every_input_is_in_the_key(change: dict[str, Any]) -> None:
    assert artifact_key(**{**INPUTS, **change}) != artifact_key(**INPUTS)


def test_the_order_of_options_is_not_in_the_key() -> None:
    one = artifact_key(**{**INPUTS, "options": {"a": 1, "b": 2}})
    assert one == artifact_key(**{**INPUTS, "options": {"b": 2, "a": 1}})


def test_a_store_that_cannot_be_written(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.touch()
    store = Store(blocked)
    assert store.get(KEY) is None
    with pytest.raises(KinspectError, match="cannot be written") as caught, store.stage():
        pass
    assert "KINSPECT_CACHE_DIR" in caught.value.hint


def test_the_root_follows_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KINSPECT_CACHE_DIR", str(tmp_path))
    assert own_cache() == tmp_path
    monkeypatch.delenv("KINSPECT_CACHE_DIR")
    assert "kinspect" in own_cache().parts
