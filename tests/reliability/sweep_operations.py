"""Every public operation that changes something, on a small table of each format."""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from sweep_places import Place

import skerry
from skerry.errors import NotFoundError, UnsupportedError
from skerry.table.connector.publication import Publication, WriteMode
from skerry.table.stream_batch import StreamBatch

__all__ = ["FORMATS", "OPERATIONS", "SCHEMA", "SHOWS_INDEXES", "TABLE", "Operation", "make", "rows"]

TABLE = "d.t"
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.int64()), ("s", pa.string())])

Act = Callable[[Any, Place], Any]

_ICEBERG_RETRIES = {"commit.retry.min-wait-ms": "1", "commit.retry.max-wait-ms": "5"}
_PAIMON_RETRIES = {
    "commit.min-retry-wait": "1 ms",
    "commit.max-retry-wait": "5 ms",
    "num-sorted-run.compaction-trigger": "9",
}
FORMATS: dict[str, dict[str, Any]] = {
    "iceberg": {"format": "iceberg", "properties": _ICEBERG_RETRIES},
    "paimon": {"format": "paimon", "properties": _PAIMON_RETRIES},
    "keyed": {
        "format": "paimon",
        "primary_key": ["id"],
        "partition_by": ["bucket(1, id)"],
        "properties": _PAIMON_RETRIES,
    },
}
"""Arguments of `create_table` by kind of table."""


@dataclass(frozen=True)
class Operation:
    """Something that a user does.

    Args:
        name: Its name in the sweep.
        kind: The kind of table.
        prepare: Makes what there is before.
        act: Does it.
        repeats: Whether doing it again changes nothing.
        in_steps: Whether it commits more than once: what is there after a failure may lie between before and after, but
            for the rows.
        forgets_files: Whether a failure may leave files that no table reaches, so that nothing can remove them.
        forgets_in_doubt: The same, but only if the process died, or could not find out what became of its commit.
        more_pieces: How many more pieces of a registry that is listed there may be after a failure: one that names the
            lost file beside those before it is larger, so that the next need not take it in.
    """

    name: str
    kind: str
    prepare: Act
    act: Act
    repeats: bool = False
    in_steps: bool = False
    forgets_files: bool = False
    forgets_in_doubt: bool = False
    more_pieces: int = 0

    @property
    def format(self) -> str:
        """The table format."""
        return str(FORMATS[self.kind]["format"])

    @property
    def key(self) -> str:
        """What names it on a command line."""
        return f"{self.kind}:{self.name}"


def rows(start: int, stop: int, *, v: int = 0) -> pa.Table:
    """Rows with these ids."""
    ids = range(start, stop)
    return pa.table({"id": list(ids), "v": [v] * len(ids), "s": [f"s{n % 7}" for n in ids]}, schema=SCHEMA)


def make(catalog: Any, kind: str, **properties: str) -> Any:
    """The table with twenty rows, in two appends."""
    options = FORMATS[kind]
    table = catalog.create_table(TABLE, SCHEMA, **{**options, "properties": {**options["properties"], **properties}})
    table.append(rows(0, 10))
    table.append(rows(10, 20))
    return table


def _prepared(kind: str, more: Callable[[Any, Any, Place], Any] | None = None, **properties: str) -> Act:
    def prepare(catalog: Any, place: Place) -> None:
        table = make(catalog, kind, **properties)
        if more is not None:
            more(catalog, table, place)

    return prepare


def _on_table(act: Callable[[Any], Any]) -> Act:
    return lambda catalog, place: act(catalog.load_table(TABLE))


def _replace_rows(catalog: Any, table: Any, place: Place) -> None:
    table.compact()
    table.upsert(rows(5, 15))  # invisible, so that the same: any write that follows shows them
    table.remove_properties("write-only")


def _storage(table: Any) -> Any:
    return table.reachable(None).storage


def _leave_orphan(catalog: Any, table: Any, place: Place) -> None:
    _storage(table).write(f"{table.location}/data/00000-orphan.parquet", b"left behind")


def _parquet(data: pa.Table) -> bytes:
    sink = io.BytesIO()
    pq.write_table(data, sink)
    return sink.getvalue()


def _leave_parquet(catalog: Any, table: Any, place: Place) -> None:
    _storage(table).write(f"{table.location}/landed/a.parquet", _parquet(rows(50, 55)))


def _change_deleted(catalog: Any, table: Any, place: Place) -> None:
    for condition in ("id in (1, 11)", "id in (2, 12)", "id in (3, 13)"):
        table.delete(condition)


def _branch(catalog: Any, table: Any, place: Place) -> None:
    table.create_branch("b")
    table.append(rows(30, 33), ref="b")


def _stage(catalog: Any, table: Any, place: Place) -> None:
    table.append(rows(30, 33), staged=True, snapshot_properties={"wap.id": "w"})


def _publish(mode: WriteMode, on: tuple[str, ...] = ()) -> Act:
    """What Spark's sinks do, with two tasks, of which each writes a share."""

    def act(catalog: Any, place: Place) -> None:
        table = catalog.load_table(TABLE)
        write = table.connector().begin_write(Publication(mode, on=on)).of_batch(7)
        shares: list[Any] = []
        try:
            for start in (40, 15):
                shares.append(write.share(rows(start, start + 6, v=5).to_batches()))
        except Exception:
            write.abort()  # as Spark asks for when a task has failed
            raise
        with write.owned(shares):
            write.publish(table.connector(), shares, StreamBatch("s", 7))

    return act


def _records() -> pa.Table:
    found = rows(5, 25, v=3)
    return found.append_column("op", pa.array(["d", *["u"] * 14, *["c"] * 5]))


def _append_files(catalog: Any, place: Place) -> None:
    from skerry.iceberg.writing.table_writers import write_batches

    table = catalog.load_table(TABLE)
    table.append_files(write_batches(table.handle.layout(), rows(60, 64).to_batches()))


def _register(catalog: Any, place: Place) -> None:
    files = [name for name in place.files() if name.endswith(".metadata.json")]
    folder = skerry_folder(place)
    catalog.register_table("d.found", f"{folder}/{max(files)}")


def skerry_folder(place: Place) -> str:
    """What the names of a place's files are relative to."""
    bucket = getattr(place, "bucket", None)
    return f"s3://{bucket}" if bucket else f"file://{place.warehouse}"  # type: ignore[attr-defined]


def _delete(table: Any) -> None:
    table.delete("id < 5 or id = 12")


def _drop(catalog: Any, table: Any, place: Place) -> None:
    catalog.drop_table(TABLE)


def _empty(catalog: Any, place: Place) -> None:
    catalog.create_namespace("d")


def _folder(catalog: Any, place: Place) -> None:
    catalog.create_namespace("d")
    for name in ("a", "b"):
        place.put(f"raw/{name}.parquet", _parquet(rows(0, 4)))


def _migrate_folder(catalog: Any, place: Place) -> None:
    folder = skerry_folder(place)
    catalog.migrate(TABLE, f"{folder}/lake/raw" if folder.startswith("s3") else f"{folder}/raw")


def _ask_for_indexes(catalog: Any, table: Any, place: Place) -> None:
    table.set_properties({"file-index.bitmap.columns": "v,s", "file-index.in-manifest-threshold": "0 b"})


def _in_partitions(catalog: Any, place: Place) -> None:
    properties = {**_PAIMON_RETRIES, "partition.timestamp-pattern": "1999-01-$v"}
    table = catalog.create_table(TABLE, SCHEMA, format="paimon", partition_by=["v"], properties=properties)
    table.append(rows(0, 10))  # 1999-01-0, the last day of 1998
    table.append(rows(10, 20, v=99_999))


def _waiting(catalog: Any, place: Place) -> None:
    """Rows that are seen, and the same rows waiting for buckets, so that placing them changes nothing."""
    properties = {**_PAIMON_RETRIES, "bucket": "-2"}
    table = catalog.create_table(TABLE, SCHEMA, format="paimon", primary_key=["id"], properties=properties)
    table.append(rows(0, 10))
    table.set_properties({"postpone.batch-write-fixed-bucket": "false"})
    table.append(rows(5, 10))
    table.append(rows(5, 10))
    table.remove_properties("postpone.batch-write-fixed-bucket")


def _across_partitions(catalog: Any, place: Place) -> None:
    properties = {**_PAIMON_RETRIES, "partition.end-input-to-done": "true"}
    table = catalog.create_table(
        TABLE, SCHEMA, format="paimon", primary_key=["id"], partition_by=["v"], properties=properties
    )
    table.append(rows(0, 10))
    table.append(rows(10, 20, v=1))


def _both(name: str, act: Callable[[Any], Any], more: Any = None, **how: bool) -> list[Operation]:
    return [Operation(name, kind, _prepared(kind, more), _on_table(act), **how) for kind in FORMATS]


def _rename(catalog: Any, place: Place) -> None:
    catalog.rename_table(TABLE, "d.other")


def _drop_branch(table: Any) -> None:
    """Drop a branch, or what a drop that failed has left of it: the tag that it began with."""
    with suppress(NotFoundError):
        table.drop_ref("b")


def _create(kind: str) -> Act:
    return lambda catalog, place: catalog.create_table("d.new", SCHEMA, **FORMATS[kind])


def _iceberg(name: str, act: Callable[[Any], Any], more: Any = None, **properties: str) -> Operation:
    return Operation(name, "iceberg", _prepared("iceberg", more, **properties), _on_table(act))


_LOOKUP = {"changelog-producer": "lookup"}
_FULL = {"changelog-producer": "full-compaction"}


def _keyed(
    name: str, act: Callable[[Any], Any], more: Any = None, *, in_steps: bool = False, **properties: str
) -> Operation:
    return Operation(name, "keyed", _prepared("keyed", more, **properties), _on_table(act), in_steps=in_steps)


def _copy(catalog: Any, place: Place) -> None:
    catalog.load_table(TABLE).copy_to(name="d.copy")


def _copied(catalog: Any, table: Any, place: Place) -> None:
    _copy(catalog, place)
    table.append(rows(20, 25))  # once: a Paimon copy gets the snapshots one by one


def _relocate(catalog: Any, place: Place) -> None:
    catalog.load_table(TABLE).relocate(f"{skerry_folder(place)}/moved/t")


def _register_moved(catalog: Any, place: Place) -> None:
    """What another program has copied, under its new names."""
    if hasattr(place, "uri"):
        raise UnsupportedError("Nessie gives credentials for tables that it has, and this one it gets now")
    table = catalog.load_table(TABLE)
    storage, target = _storage(table), f"{skerry_folder(place)}/by-hand/t"
    for file in list(storage.list(table.location)):
        storage.write(target + file.location[len(table.location) :], storage.read(file.location), overwrite=True)
    newest = target + table.metadata_location[len(table.location) :]
    catalog.register_table("d.found", newest, prefixes={table.location: target})


def _read_by_folder(catalog: Any, place: Place) -> None:
    found = catalog.load_table(TABLE)
    # Nessie numbers all metadata files alike, so that the newest of a folder is not known
    location = found.metadata_location if hasattr(place, "uri") else found.location
    table = skerry.open_table(location, **getattr(place, "options", {}))
    assert table.scan().to_arrow().num_rows == 20
    assert table.statistics()["id"].ndv == 20


def _look_into(table: Any) -> None:
    assert sum(table.inspect.files()["record_count"].to_pylist()) == 20
    assert table.inspect.snapshots().num_rows == 2
    assert {finding.check for finding in table.health()} > {"orphans"}


def _two_tables(catalog: Any, table: Any, place: Place) -> None:
    catalog.create_table("d.u", SCHEMA, **FORMATS["iceberg"]).append(rows(0, 5))


def _change_two(catalog: Any, place: Place) -> None:
    with catalog.transaction() as changes:
        changes.load_table(TABLE).delete("id < 5")
        changes.load_table("d.u").append(rows(5, 9))


VIEW = "SELECT id, v FROM t WHERE id > 3"


def _view(catalog: Any, table: Any, place: Place) -> None:
    catalog.create_view("d.w", VIEW)


def _views() -> list[Operation]:
    def replaced(catalog: Any, place: Place) -> None:
        catalog.create_view("d.w", f"{VIEW} AND v = 0", replace=True)

    # no orphans are looked for among the files of views
    return [
        Operation(
            "create_view",
            "iceberg",
            _prepared("iceberg"),
            lambda catalog, place: _view(catalog, None, place),
            forgets_in_doubt=True,
        ),
        Operation("replace_view", "iceberg", _prepared("iceberg", _view), replaced, forgets_in_doubt=True),
        Operation(
            "rename_view",
            "iceberg",
            _prepared("iceberg", _view),
            lambda catalog, place: catalog.rename_view("d.w", "d.x"),
        ),
        Operation("drop_view", "iceberg", _prepared("iceberg", _view), lambda catalog, place: catalog.drop_view("d.w")),
    ]


def _places() -> list[Operation]:
    """Copies and moves: what a failure leaves at a new place, the next try takes for its own."""
    found = [
        Operation("relocate", "iceberg", _prepared("iceberg"), _relocate, forgets_files=True),
        Operation("register-prefixes", "iceberg", _prepared("iceberg"), _register_moved, forgets_files=True),
        Operation("transaction", "iceberg", _prepared("iceberg", _two_tables), _change_two),
    ]
    for kind in FORMATS:
        in_steps = kind != "iceberg"  # the copy gets one snapshot after the other
        found += [
            Operation("copy_to", kind, _prepared(kind), _copy, repeats=True, in_steps=in_steps, forgets_files=True),
            Operation(
                "copy_to-again",
                kind,
                _prepared(kind, _copied),
                _copy,
                repeats=True,
                in_steps=in_steps,
                forgets_files=True,
            ),
            Operation("open_table", kind, _prepared(kind), _read_by_folder, repeats=True),
            Operation("inspect", kind, _prepared(kind), _on_table(_look_into), repeats=True),
        ]
    return found


SHOWS_INDEXES = "sweep.shows-indexes"
"""Table property: whether indexes belong to the outcome; a commit of rows may do without them."""


def _wants_index(catalog: Any, table: Any, place: Place) -> None:
    table.set_properties({"skerry.index.id": "hash", SHOWS_INDEXES: "true"})


def _operations() -> list[Operation]:
    now = datetime.now
    found = [
        _iceberg("index", lambda table: table.index(), _wants_index),
        _iceberg("append-indexed", lambda table: table.append(rows(20, 25)), **{"skerry.index.id": "hash"}),
        Operation("index", "paimon", _prepared("paimon", _wants_index), _on_table(lambda table: table.index())),
        Operation(
            "append-indexed",
            "paimon",
            _prepared("paimon", None, **{"skerry.index.id": "hash"}),
            _on_table(lambda table: table.append(rows(20, 25))),
            more_pieces=1,
        ),
        *_both("append", lambda table: table.append(rows(20, 30))),
        *_both("append-batch", lambda table: table.append(rows(20, 30), stream="s", batch=1), repeats=True),
        *_both("overwrite", lambda table: table.overwrite(rows(100, 105), "id < 5")),
        *_both("delete", _delete),
        *_both("upsert", lambda table: table.upsert(rows(5, 25, v=1), on=["id"])),
        *_both("compact", lambda table: table.compact(full=True)),
        _keyed("compact-lookup", lambda table: table.compact(), **_LOOKUP, **{"write-only": "true"}),
        _keyed("compact-full-changelog", lambda table: table.compact(full=True), **_FULL),
        _keyed(
            "expire_snapshots-changelogs",
            lambda table: table.expire_snapshots(),
            lambda catalog, table, place: [table.append(rows(n, n + 5, v=n)) for n in range(6)],
            in_steps=True,
            **_LOOKUP,
            **{"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "2", "changelog.num-retained.max": "9"},
        ),
        *_both("analyze", lambda table: table.analyze(full=True)),
        *_both(
            "expire_snapshots",
            lambda table: table.expire_snapshots(keep_last=1, older_than=now(UTC)),
            lambda catalog, table, place: table.delete("id < 3"),
            in_steps=True,
        ),
        *_both("remove_orphans", lambda table: table.remove_orphans(older_than_days=0), _leave_orphan),
        *_both("update_schema", lambda table: table.update_schema().add_column("x", pa.int32()).commit()),
        *_both("set_properties", lambda table: table.set_properties({"skerry.sweep": "yes"})),
        *_both(
            "create_branch", lambda table: table.create_branch("b"), forgets_files=True
        ),  # Paimon's tag of its begin
        *_both("create_tag", lambda table: table.create_tag("x")),
        *_both("drop_ref", _drop_branch, _branch, repeats=True, in_steps=True),
        *_both("fast_forward", lambda table: table.fast_forward("main", "b"), _branch, in_steps=True),
        *_both("rollback", lambda table: table.rollback(table.snapshots()[0].snapshot_id), in_steps=True),
        _iceberg("delete-mor", _delete, **{"write.delete.mode": "merge-on-read"}),
        _iceberg(
            "upsert-mor", lambda table: table.upsert(rows(5, 25, v=1), on="id"), **{"write.merge.mode": "merge-on-read"}
        ),
        _iceberg("upsert-blind", lambda table: table.upsert(rows(5, 25, v=1), on="id", blind=True)),
        Operation(
            "add_files",
            "iceberg",
            _prepared("iceberg", _leave_parquet),
            _on_table(lambda table: table.add_files([f"{table.location}/landed/a.parquet"])),
            in_steps=True,  # the name mapping first
        ),
        _iceberg("rewrite_manifests", lambda table: table.rewrite_manifests(full=True)),
        _iceberg(
            "rewrite_deletes",
            lambda table: table.rewrite_deletes(),
            _change_deleted,
            **{"write.delete.mode": "merge-on-read"},
        ),
        _iceberg("update_spec", lambda table: table.update_spec().add_field("bucket(2, id)").commit()),
        _iceberg("update_sort_order", lambda table: table.update_sort_order(["v"])),
        _iceberg("upgrade", lambda table: table.upgrade(3)),
        _iceberg("cherry_pick", lambda table: table.cherry_pick(table.current_snapshot("b").snapshot_id), _branch),
        _iceberg("append-staged", lambda table: table.append(rows(30, 33), staged=True)),
        _iceberg("publish-staged", lambda table: table.publish("w"), _stage),
        _iceberg("merge", lambda table: table.merge(rows(5, 25, v=1), on="id", when_matched="update")),
        Operation(
            "delete-vectors",
            "paimon",
            _prepared("paimon", None, **{"deletion-vectors.enabled": "true"}),
            _on_table(_delete),
        ),
        Operation(
            "expire_partitions",
            "paimon",
            _in_partitions,
            _on_table(lambda table: table.expire_partitions(timedelta(days=1))),
            repeats=True,
        ),
        Operation(
            "append-iceberg-metadata",
            "paimon",
            _prepared("paimon", None, **{"metadata.iceberg.storage": "table-location"}),
            _on_table(lambda table: table.append(rows(20, 30))),
            forgets_files=True,
        ),
        Operation(
            "rewrite_file_indexes",
            "paimon",
            _prepared("paimon", _ask_for_indexes),
            _on_table(lambda table: table.rewrite_file_indexes()),
            repeats=True,
        ),
        Operation(
            "compact-vectors",
            "keyed",
            _prepared("keyed", _replace_rows, **{"deletion-vectors.enabled": "true", "write-only": "true"}),
            _on_table(lambda table: table.compact()),
        ),
        Operation(
            "compact-sorted",
            "paimon",
            _prepared("paimon"),
            _on_table(lambda table: table.compact(sort_by=["s desc"])),
        ),
        Operation(
            "place-waiting",
            "paimon",
            _waiting,
            _on_table(lambda table: table.compact()),
            repeats=True,
            in_steps=True,  # rows are placed by a commit of their own
        ),
        Operation(
            "append-across-partitions",
            "paimon",
            _across_partitions,
            _on_table(lambda table: table.append(rows(5, 15, v=2))),
        ),
        Operation("append_files", "iceberg", _prepared("iceberg"), _append_files),
        Operation("register_table", "iceberg", _prepared("iceberg", _drop), _register),
        Operation("drop_table", "iceberg", _prepared("iceberg"), lambda catalog, place: catalog.drop_table(TABLE)),
        Operation("migrate-folder", "iceberg", _folder, _migrate_folder, in_steps=True, forgets_files=True),
        Operation(
            "to-paimon",
            "iceberg",
            _prepared("iceberg"),
            lambda catalog, place: catalog.migrate(TABLE, format="paimon"),
            in_steps=True,
            forgets_files=True,
        ),
        Operation(
            "to-iceberg",
            "paimon",
            _prepared("paimon"),
            lambda catalog, place: catalog.migrate(TABLE, format="iceberg"),
            in_steps=True,
            forgets_files=True,
        ),
    ]
    for kind in FORMATS:
        key = () if kind == "keyed" else ("id",)
        found += [
            Operation("create_table", kind, _empty, _create(kind), forgets_files=True),
            Operation("rename_table", kind, _prepared(kind), _rename),
            Operation(
                "drop_table-purge",
                kind,
                _prepared(kind),
                lambda catalog, place: catalog.drop_table(TABLE, purge=True),
                forgets_files=True,
            ),
            Operation("publish-append", kind, _prepared(kind), _publish(WriteMode.APPEND), repeats=True),
            Operation("publish-overwrite", kind, _prepared(kind), _publish(WriteMode.OVERWRITE), repeats=True),
            Operation("publish-upsert", kind, _prepared(kind), _publish(WriteMode.UPSERT, key), repeats=True),
        ]
    for kind in ("iceberg", "keyed"):
        apply = _on_table(lambda table: table.apply_changes(_records(), on="id", stream="s", batch=1))
        found.append(Operation("apply_changes", kind, _prepared(kind), apply, repeats=True))
    return [*found, *_places(), *_views()]


OPERATIONS: dict[str, Operation] = {operation.key: operation for operation in _operations()}
