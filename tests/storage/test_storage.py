"""What a storage promises, for every kind of store that can be had on one machine."""

from __future__ import annotations

import gc
import io
import pickle
import random
import threading
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from skerry.errors import AlreadyExistsError, FormatError, NotFoundError, SkerryError, StorageError
from skerry.storage import Counts, Storage, join
from skerry.storage.local import LocalSink

ODD_NAMES = ["a b.txt", "50%.txt", "%20.txt", "a#1", "#", "ünï→.txt", "x?y=z&w", "a+b", "[x]*", "~", "a'b\"c"]
BLOB = random.Random(7).randbytes(300_000)


@dataclass
class Place:
    """A storage, and a folder in it that is the test's own."""

    storage: Storage
    base: str

    def __truediv__(self, path: str) -> str:
        return f"{self.base}/{path}"

    def paths(self, prefix: str = "") -> list[str]:
        """What lies below a prefix, relative to the folder."""
        found = self.storage.list(f"{self.base}/{prefix}" if prefix else self.base)
        return sorted(status.location.removeprefix(self.base + "/") for status in found)


@pytest.fixture(autouse=True)
def small_uploads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Upload in parts from 6 MiB on, in parts as small as S3 allows."""
    monkeypatch.setattr("skerry.storage.objects._ATOMIC_BYTES", 6 << 20)
    monkeypatch.setattr("skerry.storage.objects._PART_BYTES", 5 << 20)


@pytest.fixture(params=["local", "file url", "memory", pytest.param("s3", marks=pytest.mark.service)])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    match request.param:
        case "local":
            yield Place(Storage(), str(request.getfixturevalue("tmp_path") / "a lake %20#ü"))
        case "file url":
            yield Place(Storage(), f"file://{request.getfixturevalue('tmp_path')}/lake")
        case "memory":
            yield Place(Storage(), f"memory://{uuid.uuid4().hex}/lake")
        case "s3":
            server = request.getfixturevalue("s3_server")
            yield Place(Storage(server.options), f"s3://{server.new_bucket()}/lake %20#ü")


# -- reading and writing -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [b"", b"x", BLOB], ids=["empty", "one byte", "large"])
def test_what_is_written_is_read(place, content):
    location = place / "deep/er/file"
    place.storage.write(location, content)
    assert place.storage.read(location) == content
    assert place.storage.size(location) == len(content)
    assert place.storage.exists(location)


@pytest.mark.parametrize("form", [bytearray, memoryview, pa.py_buffer, lambda data: memoryview(data).cast("h")])
def test_any_contiguous_buffer_is_written(place, form):
    place.storage.write(place / "x", form(b"abcdef"))
    assert place.storage.read(place / "x") == b"abcdef"


def test_names_are_taken_literally(place):
    for name in ODD_NAMES:
        place.storage.write(join(place.base, name), name.encode())
        place.storage.write(join(place.base, name + ".d", "inner"), b"")
    for name in ODD_NAMES:
        location = join(place.base, name)
        assert place.storage.read(location) == name.encode()
        assert place.storage.read_tail(location, 1) == (name.encode()[-1:], len(name.encode()))
    assert place.paths() == sorted([*ODD_NAMES, *(f"{name}.d/inner" for name in ODD_NAMES)])
    place.storage.delete(join(place.base, name) for name in ODD_NAMES)
    assert place.paths() == sorted(f"{name}.d/inner" for name in ODD_NAMES)


def test_a_missing_file_is_not_found(place):
    missing = place / "no/such"
    for read in (
        place.storage.size,
        place.storage.read,
        place.storage.open_input,
        place.storage.arrow_file,
        lambda location: place.storage.read_range(location, 0, 1),
        lambda location: place.storage.read_ranges(location, [0, 9], [1, 1]),
        lambda location: place.storage.read_tail(location, 10),
    ):
        with pytest.raises(NotFoundError, match="does not exist") as caught:
            read(missing)
        assert caught.value.location == missing
    assert not place.storage.exists(missing)
    assert not place.storage.exists(place.base)


# -- create-if-absent --------------------------------------------------------------------------------------------------


def test_an_existing_file_is_kept_unless_overwriting_is_asked_for(place):
    location = place / "x"
    place.storage.write(location, b"first")
    with pytest.raises(AlreadyExistsError, match="already exists") as caught:
        place.storage.write(location, b"second")
    assert caught.value.location == location
    with pytest.raises(AlreadyExistsError):
        place.storage.open_output(location)
    assert place.storage.read(location) == b"first"
    place.storage.write(location, b"third", overwrite=True)
    assert place.storage.read(location) == b"third"
    with place.storage.open_output(location, overwrite=True) as sink:
        sink.write(b"fourth")
    assert place.storage.read(location) == b"fourth"
    assert place.paths() == ["x"]


@pytest.mark.parametrize("how", ["write", "open_output"])
def test_of_sixteen_racing_writers_one_wins(place, how):
    location = place / "metadata/v1.json"
    gate = threading.Barrier(16)
    won: list[bytes] = []
    lost: list[AlreadyExistsError] = []
    broken: list[BaseException] = []

    def race(content: bytes) -> None:
        try:
            if how == "write":
                gate.wait()
                place.storage.write(location, content)
            else:
                with place.storage.open_output(location) as sink:
                    sink.write(content)
                    gate.wait()
            won.append(content)
        except AlreadyExistsError as error:
            lost.append(error)
        except BaseException as error:
            broken.append(error)

    threads = [threading.Thread(target=race, args=(bytes([65 + i]) * 10_000,)) for i in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not broken
    assert (len(won), len(lost)) == (1, 15)
    assert place.storage.read(location) == won[0]
    assert place.paths() == ["metadata/v1.json"]


# -- ranges ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def blob(place) -> str:
    place.storage.write(place / "blob", BLOB)
    return place / "blob"


@pytest.mark.parametrize(
    ("offset", "length"), [(0, 1), (0, len(BLOB)), (17, 1000), (len(BLOB) - 1, 1), (5, 0), (len(BLOB), 0)]
)
def test_a_range(place, blob, offset, length):
    data = place.storage.read_range(blob, offset, length)
    assert data == BLOB[offset : offset + length]
    assert isinstance(data, bytes)


@pytest.mark.parametrize(
    ("offset", "length"), [(0, len(BLOB) + 1), (len(BLOB) - 5, 6), (len(BLOB), 1), (1 << 40, 1), (10, 1 << 40)]
)
def test_a_short_read_is_an_error(place, blob, offset, length):
    message = f"expected {length} bytes, the file ends at byte {len(BLOB)}"
    with pytest.raises(FormatError, match=message) as caught:
        place.storage.read_range(blob, offset, length)
    assert (caught.value.location, caught.value.offset) == (blob, offset)
    with pytest.raises(FormatError, match=message):
        place.storage.read_ranges(blob, [3, offset], [5, length])


@pytest.mark.parametrize(("offset", "length"), [(-1, 5), (5, -1), (-1, 0)])
def test_a_negative_range_is_an_error(place, blob, offset, length):
    with pytest.raises(FormatError, match="cannot read"):
        place.storage.read_range(blob, offset, length)
    with pytest.raises(FormatError, match="cannot read"):
        place.storage.read_ranges(blob, [0, offset], [1, length])
    with pytest.raises(FormatError, match="cannot read"):
        place.storage.read_tail(blob, -1)


def test_several_ranges_in_any_order_overlapping_or_empty(place, blob):
    offsets, lengths = [200_000, 5, 0, 7, 299_999, 50, 100], [1000, 10, 300_000, 0, 1, 100, 100]
    before = place.storage.metrics.counts()
    views = place.storage.read_ranges(blob, offsets, lengths)
    assert [bytes(view) for view in views] == [BLOB[o : o + n] for o, n in zip(offsets, lengths, strict=True)]
    assert all(isinstance(view, memoryview) for view in views)
    assert place.storage.metrics.counts() - before == Counts(requests=1, bytes_read=len(BLOB))
    assert place.storage.read_ranges(blob, [], []) == []


def test_ranges_far_apart_are_read_apart(place):
    content = bytes(2_000_000) + BLOB + bytes(2_000_000) + b"end"
    place.storage.write(place / "sparse", content)
    before = place.storage.metrics.counts()
    offsets, lengths = [len(content) - 3, 0, 2_000_000, 2_000_100], [3, 10, 50, 10]
    views = place.storage.read_ranges(place / "sparse", offsets, lengths)
    assert [bytes(view) for view in views] == [content[o : o + n] for o, n in zip(offsets, lengths, strict=True)]
    assert place.storage.metrics.counts() - before == Counts(requests=3, bytes_read=3 + 10 + 110)


@pytest.mark.parametrize("length", [0, 1, 1000, len(BLOB), len(BLOB) + 1, 1 << 40])
def test_the_tail_comes_with_the_size_in_one_request(place, blob, length):
    before = place.storage.metrics.counts()
    data, size = place.storage.read_tail(blob, length)
    assert data == BLOB[max(0, len(BLOB) - length) :]
    assert size == len(BLOB)
    assert place.storage.metrics.counts() - before == Counts(requests=1, bytes_read=len(data))


def test_the_tail_of_an_empty_file(place):
    place.storage.write(place / "empty", b"")
    assert place.storage.read_tail(place / "empty", 10) == (b"", 0)


# -- listing and deleting ----------------------------------------------------------------------------------------------


def test_a_listing_stays_below_its_folder(place):
    names = ["a/b/1", "a/b/c/2", "a/bc", "a/b.x/3", "a/b", "ab", "a/d/4"]
    if place.base.startswith(("/", "file:")):
        names.remove("a/b")  # elsewhere a name may be a file and a folder at once
    for name in names:
        place.storage.write(place / name, name.encode())
    assert place.paths("a/b") == place.paths("a/b/") == ["a/b/1", "a/b/c/2"]
    assert place.paths() == sorted(names)
    assert place.paths("a/b/1") == []
    assert place.paths("a/none") == []


def test_a_folder_is_listed_one_level_at_a_time(place):
    for path in ("t/a", "t/b/c", "t/b/d/e", "t/f/g", "tt/x"):
        place.storage.write(place / path, b"12")
    for spelling in (place / "t", place / "t" + "/"):
        found = place.storage.list_folder(spelling)
        assert [(file.location, file.size_bytes) for file in found.files] == [(place / "t/a", 2)]
        assert sorted(found.folders) == [place / "t/b", place / "t/f"]
    nothing = place.storage.list_folder(place / "no/such")
    assert (nothing.files, nothing.folders) == ((), ())


def test_a_listing_tells_size_and_time(place):
    place.storage.write(place / "x", b"12345")
    (status,) = place.storage.list(place.base)
    assert status.location == place / "x"
    assert status.size_bytes == 5
    assert status.modified.tzinfo is not None
    assert abs(datetime.now(UTC) - status.modified) < timedelta(minutes=5)


def test_a_listing_is_lazy_and_complete(place):
    names = {f"f{i:04}" for i in range(120)}
    for name in names:
        place.storage.write(place / name, b"")
    listing = place.storage.list(place.base)
    first = next(listing)
    assert {first.location, *(status.location for status in listing)} == {place / name for name in names}


def test_deleting_is_idempotent(place):
    for name in ("a", "b", "c"):
        place.storage.write(place / name, b"x")
    place.storage.delete(place / name for name in ("a", "missing", "no/such/folder", "b"))
    assert place.paths() == ["c"]
    place.storage.delete([place / "a", place / "b"])
    place.storage.delete([])
    assert place.paths() == ["c"]


def test_deleting_a_string_is_a_mistake(place):
    with pytest.raises(TypeError, match="several locations"):
        place.storage.delete(place / "a")


# -- streams -----------------------------------------------------------------------------------------------------------


def test_an_input_stream_reads_and_seeks(place, blob):
    with place.storage.open_input(blob) as stream:
        assert stream.seekable()
        assert stream.readable()
        assert stream.read(10) == BLOB[:10]
        assert stream.tell() == 10
        assert stream.seek(-100, io.SEEK_END) == len(BLOB) - 100
        assert stream.read(50) == BLOB[-100:-50]
        assert stream.seek(100) == 100
        assert stream.seek(50, io.SEEK_CUR) == 150
        assert stream.read(200_000) == BLOB[150:200_150]
        assert stream.read() == BLOB[200_150:]
        assert stream.read(1) == b""
        assert stream.seek(10, io.SEEK_END) == len(BLOB) + 10
        assert stream.read(5) == b""
        assert stream.seek(len(BLOB) - 70_000) > 0
        assert stream.read(65_000) == BLOB[-70_000:-5000]
        buffer = bytearray(100)
        assert stream.readinto(buffer) == 100
        assert buffer == BLOB[-5000:-4900]
    assert stream.closed
    with pytest.raises(ValueError, match="closed"):
        stream.read(1)


def test_an_output_stream_is_visible_only_when_closed(place):
    location = place / "deep/out"
    sink = place.storage.open_output(location)
    assert sink.writable()
    assert sink.write(b"hello ") == 6
    assert sink.write(memoryview(b"world")) == 5
    assert sink.tell() == 11
    assert not place.storage.exists(location)
    sink.close()
    sink.close()
    sink.abort()
    assert sink.closed
    assert place.storage.read(location) == b"hello world"
    assert place.paths() == ["deep/out"]
    with pytest.raises(ValueError, match="closed"):
        sink.write(b"x")


def test_an_empty_output_stream_makes_an_empty_file(place):
    place.storage.open_output(place / "empty").close()
    assert place.storage.read(place / "empty") == b""


@pytest.mark.parametrize("error", [StorageError("the disk is full"), KeyboardInterrupt()])
def test_what_went_wrong_first_is_not_lost_behind_arrows_writer(tmp_path, monkeypatch, error):
    """Which writes the end of its file also when it is left by an error."""

    def fail(self, data):
        raise error

    monkeypatch.setattr(LocalSink, "_send", fail)
    batch = pa.record_batch({"a": [1]})
    with (
        pytest.raises(type(error)) as raised,
        Storage().open_output(str(tmp_path / "f")) as sink,
        pa.ipc.new_stream(sink, batch.schema) as writer,
    ):
        writer.write_batch(batch)
    assert raised.value is error
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("size", [10, 8 << 20], ids=["small", "in parts"])
@pytest.mark.parametrize("how", ["abort", "exception", "forgotten"])
def test_an_unfinished_output_stream_leaves_nothing(place, how, size):
    location = place / "out"
    sink = place.storage.open_output(location)
    sink.write(bytes(size))
    if how == "abort":
        sink.abort()
        sink.close()
        assert sink.closed
    elif how == "exception":
        with pytest.raises(KeyError), sink:
            raise KeyError
    else:
        del sink
        gc.collect()
    assert not place.storage.exists(location)
    assert place.paths() == []


def test_a_large_output_stream(place):
    chunk = random.Random(3).randbytes(1 << 20)
    with place.storage.open_output(place / "large") as sink:
        for _ in range(11):
            sink.write(chunk)
    assert place.storage.size(place / "large") == 11 << 20
    assert place.storage.read(place / "large") == chunk * 11


@pytest.mark.parametrize("size", [10, 8 << 20], ids=["small", "in parts"])
def test_an_output_stream_that_loses_its_name_keeps_the_rivals_file(place, size):
    sink = place.storage.open_output(place / "x")
    sink.write(bytes(size))
    place.storage.write(place / "x", b"rival")
    with pytest.raises(AlreadyExistsError):
        sink.close()
    assert sink.closed
    assert place.storage.read(place / "x") == b"rival"
    assert place.paths() == ["x"]


# -- PyArrow -----------------------------------------------------------------------------------------------------------

TABLE = pa.table({"k": range(50_000), "s": [f"value {i % 977}" for i in range(50_000)]})


def test_pyarrow_writes_and_reads_parquet(place):
    location = place / "t.parquet"
    with place.storage.open_output(location) as sink:
        pq.write_table(TABLE, sink, row_group_size=10_000)
    with place.storage.arrow_file(location) as file:
        assert isinstance(file, pa.NativeFile)
        assert pq.read_table(file) == TABLE
    with place.storage.open_input(location) as stream:
        assert pq.ParquetFile(stream).read_row_group(3) == TABLE.slice(30_000, 10_000)


def test_a_failing_parquet_writer_leaves_nothing(place):
    schema = TABLE.schema
    with (  # noqa: PT012
        pytest.raises(pa.ArrowInvalid),
        place.storage.open_output(place / "t.parquet") as sink,
        pq.ParquetWriter(sink, schema) as writer,
    ):
        writer.write_table(TABLE)
        raise pa.ArrowInvalid("bad row")
    assert place.paths() == []


# -- counters, threads, pickling ---------------------------------------------------------------------------------------


def test_everything_is_counted(place):
    storage, location = place.storage, place / "x"
    assert storage.metrics.counts() == Counts()
    storage.write(location, b"0123456789")
    assert storage.metrics.counts() == Counts(requests=1, bytes_written=10)
    storage.read(location)
    storage.read_range(location, 2, 3)
    storage.size(location)
    assert storage.metrics.counts() == Counts(requests=4, bytes_read=13, bytes_written=10)
    with storage.open_input(location) as stream:
        stream.read()
    assert storage.metrics.files_opened == 1
    assert storage.metrics.bytes_read == 23
    with storage.open_output(place / "y") as sink:
        sink.write(b"12345")
    assert storage.metrics.files_opened == 2
    assert storage.metrics.bytes_written == 15
    assert storage.metrics.requests > 4
    assert "bytes_written=15" in repr(storage.metrics)


def test_one_storage_serves_many_threads(place):
    storage = place.storage
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            location = place / f"t{number}"
            storage.write(location, bytes([number]) * 100)
            for _ in range(5):
                assert storage.read_range(location, 10, 50) == bytes([number]) * 50
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert storage.metrics.counts() == Counts(requests=48, bytes_read=8 * 5 * 50, bytes_written=800)


def test_a_pickled_storage_reads_the_same_files(place):
    place.storage.write(place / "x", b"hello")
    copy = pickle.loads(pickle.dumps(place.storage))
    assert copy.read(place / "x") == b"hello"
    assert copy.options == place.storage.options
    assert copy.metrics.counts() == Counts(requests=1, bytes_read=5)


def test_errors_survive_pickling(place):
    with pytest.raises(SkerryError) as caught:
        place.storage.read(place / "missing")
    again = pickle.loads(pickle.dumps(caught.value))
    assert (type(again), str(again)) == (type(caught.value), str(caught.value))
