"""Snapshots made by hand for tests of planning: manifests in memory, any number of specs, any ages."""

from __future__ import annotations

import itertools
import uuid
from dataclasses import replace

from skerry.iceberg.manifests.manifest import EntryStatus, FileContent, ManifestContent, ManifestEntry, encode_manifest
from skerry.iceberg.manifests.manifest_list import encode_manifest_list
from skerry.iceberg.metadata import snapshot as metadata
from skerry.iceberg.metadata.arrow_schema import to_arrow_schema
from skerry.iceberg.metadata.partition_spec import UNPARTITIONED_PARTITION_SPEC
from skerry.iceberg.metadata.schema import Schema
from skerry.iceberg.planning.plan import ScanPlanner
from skerry.storage import Storage
from skerry.table.files.data_file import DataFile
from skerry.table.predicate import conjuncts_of, parse

FILE_PATH_ID = 2147483546
_numbers = itertools.count()


def data_file(path, *, size=100, rows=10, **fields):
    return DataFile(path, "parquet", rows, size, **fields)


def entry(file, sequence=1, *, status=EntryStatus.EXISTING, **fields):
    return ManifestEntry(status, file, 1, sequence, sequence, **fields)


def vector(path, reference, sequence=1, *, rows=1, offset=4, size=50, **fields):
    file = DataFile(path, "puffin", rows, 1000, **fields)
    return entry(
        file,
        sequence,
        content=FileContent.POSITION_DELETES,
        referenced_data_file=reference,
        content_offset=offset,
        content_size_bytes=size,
    )


def positions(path, sequence=1, *, reference=None, between=None, **fields):
    bounds = {}
    if between is not None:
        lower, upper = between
        bounds = {"lower_bounds": {FILE_PATH_ID: lower.encode()}, "upper_bounds": {FILE_PATH_ID: upper.encode()}}
    file = DataFile(path, "parquet", 1, 100, **bounds, **fields)
    return entry(file, sequence, content=FileContent.POSITION_DELETES, referenced_data_file=reference)


def keys(path, sequence=1, *, ids=(1,), **fields):
    return entry(data_file(path, **fields), sequence, content=FileContent.EQUALITY_DELETES, equality_ids=tuple(ids))


class Snapshot:
    """A snapshot of hand-made manifests in memory."""

    def __init__(self, schema: Schema, specs=(UNPARTITIONED_PARTITION_SPEC,), *, version=3):
        self.schema, self.version = schema, version
        self.specs = {spec.spec_id: spec for spec in specs}
        self.storage = Storage()
        self.root = f"memory:///planning/{next(_numbers)}"
        self.manifests = []

    def path(self, name):
        return f"{self.root}/data/{name}"

    def add(self, entries, *, content=None, spec_id=None):
        """Write a manifest of entries of one spec; what they hold decides whether of data files or delete files."""
        entries = list(entries)
        if content is None:
            content = ManifestContent(int(any(item.content is not FileContent.DATA for item in entries)))
        spec_id = spec_id if spec_id is not None else entries[0].data_file.spec_id if entries else 0
        ages = [item.sequence_number for item in entries if item.sequence_number is not None]
        data, manifest = encode_manifest(
            f"{self.root}/metadata/m{len(self.manifests)}.avro",
            entries,
            schema=self.schema,
            spec=self.specs[spec_id],
            format_version=self.version,
            content=content,
            snapshot_id=1,
        )
        self.storage.write(manifest.manifest_path, data)
        sequence = max(ages, default=1)
        self.manifests.append(replace(manifest, sequence_number=sequence, min_sequence_number=min(ages, default=1)))
        return self

    def planner(self, where=None, **options):
        predicate = parse(where, to_arrow_schema(self.schema))
        defaults = {
            "table": "ns.t",
            "storage": self.storage,
            "roots": (self.root,),
            "schema": self.schema,
            "specs": self.specs,
            "conjuncts": conjuncts_of(predicate),
            "defaults": {},
        }
        return ScanPlanner(**(defaults | options))

    def list_manifests(self):
        """Write the manifest list; returns the snapshot that has it."""
        listing = encode_manifest_list(
            self.manifests, format_version=self.version, snapshot_id=2, sequence_number=100, first_row_id=0
        )
        location = f"{self.root}/metadata/{uuid.uuid4()}.avro"  # names are not reused
        self.storage.write(location, listing.data)
        return metadata.Snapshot(snapshot_id=2, timestamp_ms=0, manifest_list=location)

    def plan(self, where=None, **options):
        return self.planner(where, **options).plan(self.list_manifests())
