"""Damaged files of real tables: an error that names the file, or the rows that were there, and never a crash."""

from __future__ import annotations

import random

import pytest
from foreign_samples import plain_rows, unpack

from skerry.errors import FormatError, NotFoundError, SkerryError, UnsupportedError
from skerry.iceberg.manifests.cache import shared_cache as iceberg_cache
from skerry.iceberg.manifests.manifest_list import ManifestContent, read_manifest_list
from skerry.paimon.manifests.cache import shared_cache as paimon_cache
from skerry.storage import Storage, name
from skerry.table.files.data_file import DeleteKind

SAMPLES = [
    "position_deletes_by_file",
    "position_deletes_by_partition",
    "position_deletes_orc",
    "position_deletes_avro",
    "equality_deletes",
    "equality_deletes_orc",
    "equality_deletes_avro",
    "deletion_vectors",
]
KINDS = ("manifest list", "data manifest", "delete manifest", "data file", "delete file")


class Victim:
    """A sample whose files are damaged one at a time.

    Args:
        sample: Its name.
        folder: A folder for its catalog.
    """

    def __init__(self, sample: str, folder) -> None:
        self.storage = Storage()
        self.sample = unpack(sample)
        self.table = self.sample.open(folder)
        self.rows = self.sample.states["current"]
        snapshot = self.table.handle.state.snapshot()
        listed = read_manifest_list(self.storage, snapshot.manifest_list)
        tasks = self.table.scan().plan()
        files = {
            "manifest list": [snapshot.manifest_list],
            "data manifest": [m.manifest_path for m in listed if m.content is ManifestContent.DATA],
            "delete manifest": [m.manifest_path for m in listed if m.content is ManifestContent.DELETES],
            "data file": [task.data_file.location for task in tasks],
            "delete file": sorted({delete.location for task in tasks for delete in task.deletes}),
        }
        self.files = {kind: [(location, self.storage.read(location)) for location in files[kind]] for kind in KINDS}
        self.has_vectors = any(delete.kind is DeleteKind.VECTOR for task in tasks for delete in task.deletes)

    def read_with(self, location: str, data: bytes | None) -> SkerryError | list:
        """What comes of a read while a file has other bytes, or is gone: an error of ours, or rows."""
        whole = self.storage.read(location)
        try:
            if data is None:
                self.storage.delete([location])
            else:
                self.storage.write(location, data, overwrite=True)
            for cache in (iceberg_cache, paimon_cache):
                cache().clear()  # manifests never change, so that no damage would be seen
            try:
                return plain_rows(self.table.scan().to_arrow())
            except SkerryError as error:
                return error
        finally:
            self.storage.write(location, whole, overwrite=True)


@pytest.fixture(scope="module")
def victim(tmp_path_factory):
    opened = {}

    def open_victim(sample):
        if sample not in opened:
            opened[sample] = Victim(sample, tmp_path_factory.mktemp(sample))
        return opened[sample]

    return open_victim


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sample", SAMPLES)
def test_a_missing_file_is_named(victim, sample, kind):
    hurt = victim(sample)
    location, _ = hurt.files[kind][0]
    error = hurt.read_with(location, None)
    assert isinstance(error, NotFoundError)
    assert name(location) in str(error)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sample", SAMPLES)
def test_a_truncated_file_is_named(victim, sample, kind):
    hurt = victim(sample)
    for location, whole in hurt.files[kind][:1]:
        for length in (0, 3, len(whole) // 2, len(whole) - 1):
            found = hurt.read_with(location, whole[:length])
            if length > 3 and hurt.has_vectors and kind == "delete file":
                assert isinstance(found, FormatError) or found == hurt.rows  # a vector is found without the footer
            else:
                assert isinstance(found, FormatError), (location, length, found)
            if isinstance(found, FormatError):
                assert name(location) in str(found), (location, length, found)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "data file"])
@pytest.mark.parametrize("sample", SAMPLES[::2] + SAMPLES[-1:])
def test_flipped_bits_give_errors_of_ours_or_rows(victim, sample, kind):
    hurt = victim(sample)
    chance = random.Random(f"{sample} {kind}")
    for _ in range(6):
        location, whole = chance.choice(hurt.files[kind])
        damaged = bytearray(whole)
        for _ in range(chance.choice((1, 1, 4))):
            damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
        found = hurt.read_with(location, bytes(damaged))
        if hurt.has_vectors and kind == "delete file":  # which have a checksum
            assert isinstance(found, FormatError) or found == hurt.rows


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sample", ["position_deletes_by_file", "deletion_vectors"])
def test_a_file_of_another_kind_is_refused(victim, sample, kind):
    """Two files change places: what a name promises is not believed."""
    hurt = victim(sample)
    for other in KINDS:
        if other != kind:
            location, _ = hurt.files[kind][0]
            found = hurt.read_with(location, hurt.files[other][0][1])
            assert isinstance(found, FormatError | UnsupportedError), (kind, other, found)
