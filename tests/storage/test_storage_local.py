"""Local files: guarantees between processes, and what an operating system can do to them."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from skerry.errors import AccessDeniedError, AlreadyExistsError, NotFoundError, StorageError
from skerry.storage import Counts, Storage

RACER = """
import os, sys
from skerry.errors import AlreadyExistsError
from skerry.storage import Storage
location, content = sys.argv[1:]
storage = Storage()
print("ready", flush=True)
sys.stdin.readline()
wins = 0
for i in range(50):
    try:
        storage.write(f"{location}/v{i}.json", content.encode() * 1000)
        wins += 1
    except AlreadyExistsError:
        pass
print(wins)
"""

WRITER = """
import sys, time
from skerry.storage import Storage
sink = Storage().open_output(sys.argv[1])
sink.write(b"x" * 1_000_000)
print("written", flush=True)
time.sleep(60)
"""


def spawn(program: str, *args: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", program, *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def listing(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_of_racing_processes_one_wins_each_name(tmp_path):
    racers = [spawn(RACER, str(tmp_path / "metadata"), letter) for letter in "abcd"]
    for racer in racers:
        assert racer.stdout.readline() == "ready\n"
    for racer in racers:
        racer.stdin.write("go\n")
        racer.stdin.flush()
    wins = [int(racer.communicate(timeout=60)[0]) for racer in racers]
    assert sum(wins) == 50
    names = listing(tmp_path / "metadata")
    assert names == sorted(f"v{i}.json" for i in range(50))
    for name in names:
        content = (tmp_path / "metadata" / name).read_text()
        assert len(content) == 1000
        assert len(set(content)) == 1


def test_a_killed_writer_leaves_nothing_under_the_name(tmp_path):
    writer = spawn(WRITER, str(tmp_path / "data.parquet"))
    assert writer.stdout.readline() == "written\n"
    writer.send_signal(signal.SIGKILL)
    writer.communicate()
    storage = Storage()
    assert not storage.exists(str(tmp_path / "data.parquet"))
    (left,) = storage.list(str(tmp_path))
    assert Path(left.location).name.startswith(".")
    assert left.location.endswith(".part")


def test_a_reader_never_sees_half_of_an_overwrite(tmp_path):
    storage, location = Storage(), str(tmp_path / "x")
    storage.write(location, b"a" * 100_000)
    with storage.open_input(location) as stream:
        head = stream.read(10)
        storage.write(location, b"b" * 100_000, overwrite=True)
        assert head + stream.read() == b"a" * 100_000
    assert storage.read(location) == b"b" * 100_000


def test_a_dangling_link_takes_the_name(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(AlreadyExistsError):
        Storage().write(str(tmp_path / "link"), b"x")


@pytest.mark.parametrize("reason", [errno.EPERM, errno.EOPNOTSUPP])
def test_a_file_system_without_hard_links_still_creates_exclusively(tmp_path, monkeypatch, reason):
    def refuse(*_: object) -> None:
        raise OSError(reason, os.strerror(reason))

    monkeypatch.setattr(os, "link", refuse)
    storage, location = Storage(), str(tmp_path / "x")
    first, second = storage.open_output(location), storage.open_output(location)
    first.write(b"first")
    second.write(b"second")
    first.close()
    with pytest.raises(AlreadyExistsError):
        second.close()
    assert storage.read(location) == b"first"
    assert listing(tmp_path) == ["x"]


def test_a_full_disk_leaves_nothing_and_says_so(tmp_path, monkeypatch):
    storage = Storage()
    sink = storage.open_output(str(tmp_path / "x"))

    class Full:
        def write(self, data: object) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        def close(self) -> None:
            pass

    monkeypatch.setattr(sink, "_file", Full())
    with pytest.raises(StorageError, match="No space left on device"):
        sink.write(b"x")
    assert sink.closed
    sink.close()
    assert listing(tmp_path) == []


def test_files_are_made_with_the_usual_permissions(tmp_path):
    before = os.umask(0o027)
    try:
        Storage().write(str(tmp_path / "x"), b"")
    finally:
        os.umask(before)
    assert (tmp_path / "x").stat().st_mode & 0o777 == 0o640


def test_what_the_system_forbids_is_named(tmp_path, monkeypatch):
    def forbid(*args: object, **_: object) -> int:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(args[0]))

    monkeypatch.setattr(os, "open", forbid)
    location = str(tmp_path / "x")
    for action in (lambda: Storage().read(location), lambda: Storage().write(location, b"x")):
        with pytest.raises(AccessDeniedError, match="denied") as caught:
            action()
        assert caught.value.location == location


def test_a_folder_is_no_file(tmp_path):
    storage, folder = Storage(), str(tmp_path)
    assert not storage.exists(folder)
    with pytest.raises(NotFoundError, match="a folder, not a file"):
        storage.size(folder)
    for action in (storage.read, storage.open_input, storage.arrow_file, lambda loc: storage.read_range(loc, 0, 1)):
        with pytest.raises(StorageError):
            action(folder)
    with pytest.raises(AlreadyExistsError):
        storage.write(folder, b"")
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(NotFoundError):
        storage.read(f"{folder}/file/below")
    with pytest.raises(NotFoundError, match="a part of its path is not a folder"):
        storage.write(f"{folder}/file/below", b"")


def test_links_to_folders_are_not_followed(tmp_path):
    outside, lake = tmp_path / "outside", tmp_path / "lake"
    outside.mkdir()
    lake.mkdir()
    (outside / "precious").write_bytes(b"x")
    (lake / "a").write_bytes(b"x")
    (lake / "out").symlink_to(outside)
    (lake / "dangling").symlink_to(tmp_path / "nowhere")
    (lake / "file").symlink_to(outside / "precious")
    found = {Path(status.location).name: status for status in Storage().list(str(lake))}
    assert set(found) == {"a", "file"}
    Storage().delete([found["file"].location])
    assert (outside / "precious").exists()


def test_a_listing_is_sorted_and_written_like_its_prefix(tmp_path):
    for name in ("b", "a/2", "a/1", "c/x/y"):
        Storage().write(str(tmp_path / name), b"")
    for prefix in (str(tmp_path), f"file://{tmp_path}", f"file:{tmp_path}", f"{tmp_path}/"):
        plain = prefix.rstrip("/")
        expected = [f"{plain}/{name}" for name in ("b", "a/1", "a/2", "c/x/y")]
        assert [status.location for status in Storage().list(prefix)] == expected


def test_names_with_control_characters(tmp_path):
    Storage().write(str(tmp_path / "tab\tnew\nline"), b"x")
    assert Storage().read(f"file://{tmp_path}/tab\tnew\nline") == b"x"
    with pytest.raises(StorageError, match="null"):
        Storage().read(f"{tmp_path}/nul\0")


def test_relative_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Storage().write("here/x", b"x")
    assert (tmp_path / "here/x").read_bytes() == b"x"
    assert Storage().read(Path("here/x")) == b"x"


def test_arrow_reads_local_files_without_us(tmp_path):
    storage = Storage()
    storage.write(str(tmp_path / "x"), b"hello")
    before = storage.metrics.counts()
    with storage.arrow_file(str(tmp_path / "x")) as file:
        assert isinstance(file, pa.OSFile)
        assert file.read() == b"hello"
    assert storage.metrics.counts() - before == Counts(requests=1, files_opened=1)


def test_an_input_stream_counts_what_it_reads(tmp_path):
    storage = Storage()
    storage.write(str(tmp_path / "x"), bytes(1_000_000))
    before = storage.metrics.counts()
    with storage.open_input(str(tmp_path / "x")) as stream:
        stream.read(10)
        stream.read(10)
    spent = storage.metrics.counts() - before
    assert (spent.requests, spent.files_opened) == (1, 1)
    assert spent.bytes_read <= 256 * 1024


def test_local_storage_imports_nothing_heavy(tmp_path):
    program = (
        "import sys; from skerry.storage import Storage; Storage().write(sys.argv[1], b'x'); "
        "print([m for m in ('pyarrow', 'obstore', 'numpy', 'pyiceberg') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", program, tmp_path / "x"], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
