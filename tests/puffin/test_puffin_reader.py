"""Reading and writing Puffin files through storage: what it costs, what comes back, and what damage does."""

from __future__ import annotations

import pickle
import random
import uuid
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import skerry
from skerry import puffin
from skerry.errors import AlreadyExistsError, FormatError, NotFoundError, SchemaError, SkerryError, UnsupportedError
from skerry.puffin import BlobMetadata, PuffinReader, PuffinWriter
from skerry.storage import Storage


def new_location() -> str:
    return f"memory:///puffin/{uuid.uuid4()}.puffin"


def write(data: bytes) -> tuple[Storage, str]:
    storage, location = Storage(), new_location()
    storage.write(location, data)
    return storage, location


def opened(file: tuple[Storage, str]) -> PuffinReader:
    storage, location = file
    return PuffinReader(location, storage=storage)


def small_file(*, compress_footer: bool = False) -> bytes:
    writer = PuffinWriter({"note": "é"}, compress_footer=compress_footer)
    with pytest.raises(SchemaError, match="fields must be a list of whole numbers, found '12'"):
        writer.add_blob("plain", b"abc", fields="12", snapshot_id=5, sequence_number=6)
    writer.add_blob("plain", b"abc", fields=[1], snapshot_id=5, sequence_number=6, compression_codec=None)
    writer.add_blob("theta", b"xyz" * 20, fields=[2, 1], snapshot_id=5, sequence_number=6, properties={"ndv": "3"})
    writer.add_blob("other", b"", fields=[], snapshot_id=-1, sequence_number=-1, compression_codec="lz4")
    return writer.finish()[0]


def big_file(footer_padding: int = 0) -> tuple[bytes, int, list[bytes]]:
    """A file of 600 kB whose blobs do not compress, with a footer as large as wanted."""
    noise = random.Random(1)
    blobs = [noise.randbytes(100_000) for _ in range(6)]
    writer = PuffinWriter({"padding": "x" * footer_padding})
    for i, blob in enumerate(blobs):
        writer.add_blob("noise", blob, fields=[i], snapshot_id=1, sequence_number=1)
    data, footer_size = writer.finish()
    return data, footer_size, blobs


def test_what_was_written_is_read(tmp_path: Path) -> None:
    storage, path = Storage(), str(tmp_path / "stats.puffin")
    writer = PuffinWriter()
    writer.properties["more"] = "later"
    first = writer.add_blob("a", b"one", fields=[3, 1, 2], snapshot_id=7, sequence_number=8, properties={"ndv": "1"})
    second = writer.add_blob("b", b"two", fields=iter([4]), snapshot_id=9, sequence_number=10, compression_codec=None)
    file_size, footer_size = writer.write(path, storage=storage)

    reader = puffin.read(path)
    assert reader.blobs == writer.blobs == (first, second)
    assert first == BlobMetadata("a", (3, 1, 2), 7, 8, 4, first.length, "zstd", {"ndv": "1"})
    assert second.offset == 4 + first.length
    assert reader.properties == {"created-by": f"skerry {skerry.__version__}", "more": "later"}
    assert (
        (reader.file_size, reader.footer_size)
        == (file_size, footer_size)
        == (len(Path(path).read_bytes()), footer_size)
    )
    assert [reader.read_blob(blob) for blob in reader.blobs] == [b"one", b"two"] == reader.read_blobs()
    assert reader.read_blobs([second]) == [b"two"]
    assert PuffinReader(path, storage=storage, file_size=file_size, footer_size=footer_size).blobs == writer.blobs


def test_relative_paths_and_path_objects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.puffin").write_bytes(small_file())
    monkeypatch.chdir(tmp_path)
    assert puffin.read(Path("x.puffin")).blobs == puffin.read("x.puffin").blobs


def test_created_by_can_be_set() -> None:
    storage, location = write(PuffinWriter({"created-by": "Trino version 381"}).finish()[0])
    assert PuffinReader(location, storage=storage).properties == {"created-by": "Trino version 381"}


def test_a_file_of_that_name_is_not_replaced() -> None:
    storage, location = write(b"there")
    with pytest.raises(AlreadyExistsError):
        PuffinWriter().write(location, storage=storage)
    assert bytes(storage.read(location)) == b"there"
    PuffinWriter().write(location, storage=storage, overwrite=True)
    assert PuffinReader(location, storage=storage).blobs == ()


def test_missing_file() -> None:
    with pytest.raises(NotFoundError):
        PuffinReader(new_location(), storage=Storage())


def test_magic_stands_three_times() -> None:
    data = small_file()
    reader = opened(write(data))
    start = len(data) - reader.footer_size
    assert data[:4] == data[start : start + 4] == data[-4:] == bytes.fromhex("50464131")


# --- What reading costs -----------------------------------------------------------------------------------------------


def test_small_footer_takes_one_read_without_any_knowledge() -> None:
    data, footer_size, blobs = big_file()
    storage, location = write(data)
    before = storage.metrics.counts()
    reader = PuffinReader(location, storage=storage)
    cost = storage.metrics.counts() - before
    assert cost.requests == 1
    assert footer_size < cost.bytes_read <= 32 * 1024 < len(data)

    for blob, content in zip(reader.blobs, blobs, strict=True):
        before = storage.metrics.counts()
        assert reader.read_blob(blob) == content
        cost = storage.metrics.counts() - before
        assert cost.requests <= 1
        assert cost.bytes_read <= blob.length + 4


def test_large_footer_takes_two_reads_and_not_the_file() -> None:
    data, footer_size, _ = big_file(footer_padding=100_000)
    storage, location = write(data)
    before = storage.metrics.counts()
    reader = PuffinReader(location, storage=storage)
    cost = storage.metrics.counts() - before
    assert reader.footer_size == footer_size > 100_000
    assert (cost.requests, cost.bytes_read) == (2, footer_size)


@pytest.mark.parametrize("padding", [0, 100_000])
@pytest.mark.parametrize("with_file_size", [False, True])
def test_known_footer_size_takes_one_exact_read(padding: int, with_file_size: bool) -> None:
    data, footer_size, _ = big_file(padding)
    storage, location = write(data)
    before = storage.metrics.counts()
    PuffinReader(location, storage=storage, footer_size=footer_size, file_size=len(data) if with_file_size else None)
    cost = storage.metrics.counts() - before
    assert (cost.requests, cost.bytes_read) == (1, footer_size)


@pytest.mark.parametrize("claimed", [-5, 1, 11, 12, 13, 200, 40_000])
def test_wrong_footer_size_is_only_a_wrong_hint(claimed: int) -> None:
    data, footer_size, _ = big_file()
    storage, location = write(data)
    reader = PuffinReader(location, storage=storage, footer_size=claimed)
    assert reader.footer_size == footer_size
    assert storage.metrics.counts().requests <= 1 + 2  # the write, and at most two reads


def test_wrong_file_size_is_found_out() -> None:
    data = small_file()
    storage, location = write(data)
    for claimed in (len(data) - 1, len(data) + 1, 0, 10**9):
        with pytest.raises(FormatError):
            PuffinReader(location, storage=storage, file_size=claimed)


def test_blobs_in_the_tail_cost_nothing_more() -> None:
    storage, location = write(small_file())
    reader = PuffinReader(location, storage=storage)
    before = storage.metrics.counts()
    assert reader.read_blob(reader.blobs[1]) == b"xyz" * 20
    assert storage.metrics.counts() == before


def test_all_blobs_together() -> None:
    data, _, blobs = big_file()
    storage, location = write(data)
    reader = PuffinReader(location, storage=storage)
    assert reader.read_blobs() == blobs
    assert reader.read_blobs(reversed(reader.blobs)) == blobs[::-1]


# --- Regions outside of blobs -----------------------------------------------------------------------------------------


def test_region_outside_of_blobs_is_found_by_properties() -> None:
    region = random.Random(2).randbytes(50_000)
    writer = PuffinWriter()
    writer.add_blob("a", b"one", fields=[1], snapshot_id=1, sequence_number=1)
    offset, length = writer.add_region(region)
    writer.properties.update({"sample-offset": str(offset), "sample-length": str(length)})
    writer.add_blob("b", b"two", fields=[2], snapshot_id=1, sequence_number=1)
    storage, location = write(writer.finish()[0])
    reader = PuffinReader(location, storage=storage)
    found = (int(reader.properties["sample-offset"]), int(reader.properties["sample-length"]))
    assert reader.read_range(*found) == region
    assert reader.read_blobs() == [b"one", b"two"]
    assert len(reader.blobs) == 2


def test_region_at_the_very_start() -> None:
    writer = PuffinWriter()
    assert writer.add_region(b"first") == (4, 5)
    reader = opened(write(writer.finish()[0]))
    assert reader.read_range(4, 5) == b"first"
    assert reader.read_range(6, 2) == b"rs"


@pytest.mark.parametrize(
    ("offset", "length"), [(0, 4), (3, 1), (4, 6), (9, 1), (-1, 1), (4, -1), (2**70, 1), (4, 2**70)]
)
def test_range_outside_of_the_blob_area(offset: int, length: int) -> None:
    writer = PuffinWriter()
    writer.add_region(b"first")
    reader = opened(write(writer.finish()[0]))
    with pytest.raises(FormatError, match="are not within bytes 4 to 9"):
        reader.read_range(offset, length)


def test_first_magic_is_checked_when_the_bytes_beside_it_are_read() -> None:
    data, _, _ = big_file()
    storage, location = write(b"PFA2" + data[4:])
    reader = PuffinReader(location, storage=storage)
    for read in (
        lambda: reader.read_blob(reader.blobs[0]),
        reader.read_blobs,
        lambda: reader.read_range(4, 0),
    ):
        with pytest.raises(FormatError, match="expected magic 50464131, found 50464132") as caught:
            read()
        assert caught.value.offset == 0


# --- Unknown things ---------------------------------------------------------------------------------------------------


def test_unknown_blob_types_pass_through() -> None:
    writer = PuffinWriter()
    writer.add_blob("acme-histogram-v9", b"?", fields=[1], snapshot_id=1, sequence_number=1)
    reader = opened(write(writer.finish()[0]))
    assert (reader.blobs[0].type, reader.read_blob(reader.blobs[0])) == ("acme-histogram-v9", b"?")


def test_unknown_codec_only_hides_its_own_blob() -> None:
    data = small_file().replace(b'"compression-codec":"zstd"', b'"compression-codec":"zzzz"')
    reader = opened(write(data))
    assert reader.read_blob(reader.blobs[0]) == b"abc"
    with pytest.raises(UnsupportedError, match="compression codec 'zzzz', expected one of lz4, zstd"):
        reader.read_blob(reader.blobs[1])
    with pytest.raises(UnsupportedError, match="zzzz"):
        PuffinWriter().add_blob("x", b"", fields=[], snapshot_id=1, sequence_number=1, compression_codec="zzzz")


# --- Damage -----------------------------------------------------------------------------------------------------------


def read_everything(storage: Storage, location: str) -> list[bytes]:
    reader = PuffinReader(location, storage=storage)
    return [reader.read_blob(blob) for blob in reader.blobs]


def refusal(storage: Storage, location: str, data: bytes) -> SkerryError | None:
    """The error that reading everything in these bytes gives, if any; no other kind of exception may come."""
    storage.write(location, data, overwrite=True)
    try:
        read_everything(storage, location)
    except (FormatError, UnsupportedError) as error:
        return error
    return None


@pytest.mark.parametrize("compress_footer", [False, True])
def test_every_truncation_is_refused(compress_footer: bool) -> None:
    data = small_file(compress_footer=compress_footer)
    storage, location = Storage(), new_location()
    for size in range(len(data)):
        error = refusal(storage, location, data[:size])
        assert isinstance(error, FormatError)
        assert error.location == location
        assert error.offset is not None
        assert error.rule is not None


def flipped(data: bytes, bit: int) -> bytes:
    damaged = bytearray(data)
    damaged[bit // 8] ^= 1 << bit % 8
    return bytes(damaged)


@pytest.mark.parametrize("compress_footer", [False, True])
def test_every_flipped_bit_is_harmless_or_refused(compress_footer: bool) -> None:
    data = small_file(compress_footer=compress_footer)
    storage, location = Storage(), new_location()
    errors = [refusal(storage, location, flipped(data, bit)) for bit in range(len(data) * 8)]
    found = [error for error in errors if error is not None]
    assert len(found) > len(errors) // 3
    assert all(error.location == location for error in found)


@pytest.mark.parametrize("bit", range(1, 32))
def test_reserved_flag_is_refused_by_name(bit: int) -> None:
    data = small_file()
    error = refusal(Storage(), new_location(), flipped(data, (len(data) - 8) * 8 + bit))
    assert isinstance(error, UnsupportedError)
    assert error.message == f"footer flags with unknown meaning are set: byte {bit // 8} bit {bit % 8}"


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_random_damage_of_any_size(data: st.DataObject) -> None:
    original = bytearray(small_file(compress_footer=data.draw(st.booleans())))
    for _ in range(data.draw(st.integers(1, 8))):
        position = data.draw(st.integers(0, len(original) - 1))
        original[position : position + data.draw(st.integers(0, 4))] = data.draw(st.binary(max_size=4))
    storage, location = write(bytes(original))
    try:
        read_everything(storage, location)
    except (FormatError, UnsupportedError):
        return


def test_errors_survive_pickling() -> None:
    with pytest.raises(FormatError) as caught:
        opened(write(small_file()[:-1]))
    copy = pickle.loads(pickle.dumps(caught.value))
    assert isinstance(copy, SkerryError)
    assert str(copy) == str(caught.value)


# --- Looks ------------------------------------------------------------------------------------------------------------


def test_repr_shows_what_is_in_the_file() -> None:
    storage, location = write(small_file())
    shown = repr(PuffinReader(location, storage=storage))
    version = skerry.__version__
    assert shown.splitlines()[0].startswith(f"PuffinReader({location!r}, ")
    assert f"created-by='skerry {version}', note='é')" in shown
    assert "  [0] plain fields=[1] snapshot=5 sequence=6 uncompressed 3 bytes at 4" in shown
    assert "  [1] theta fields=[2, 1] snapshot=5 sequence=6 zstd " in shown
    assert shown.splitlines()[2].endswith("bytes at 7 ndv='3'")


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.tuples(st.binary(max_size=300), st.sampled_from([None, "zstd", "lz4"]), st.lists(st.integers(0, 9))),
        max_size=5,
    ),
    st.booleans(),
)
def test_round_trip(blobs: list[tuple[bytes, str | None, list[int]]], compress_footer: bool) -> None:
    writer = PuffinWriter(compress_footer=compress_footer)
    for i, (content, codec, fields) in enumerate(blobs):
        writer.add_blob(f"t{i}", content, fields=fields, snapshot_id=i, sequence_number=i, compression_codec=codec)
    storage, location = Storage(), new_location()
    file_size, footer_size = writer.write(location, storage=storage)
    reader = PuffinReader(location, storage=storage, file_size=file_size, footer_size=footer_size)
    assert reader.blobs == writer.blobs
    assert [list(blob.fields) for blob in reader.blobs] == [fields for _, _, fields in blobs]
    assert reader.read_blobs() == [content for content, _, _ in blobs]
