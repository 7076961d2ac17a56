"""What makes a sample: one table that Spark changes, and a model of its rows in Python that is changed alike."""

from __future__ import annotations

import io
import json
import lzma
import re
import tarfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from foreign_samples import DATA, EXPECTED, ROOT, plain

CATALOG = "samples"
NAMESPACE = "s"

Row = dict[str, Any]
Change = Callable[[list[Row]], list[Row]]


class JavaLong(int):
    """A number that py4j hands over as a Java long, also if an int would hold it."""

    def __le__(self, other: object) -> bool:
        return False


def start_spark(folder: Path) -> Any:
    """Spark with a catalog `samples`, whose locations `memory://samples/s/…` are files in a folder."""
    import skerry.spark
    from skerry.spark.runtime.session import ICEBERG_EXTENSIONS, iceberg_packages

    (folder / NAMESPACE).mkdir(parents=True)
    catalog = f"spark.sql.catalog.{CATALOG}"
    return skerry.spark.session(
        "foreign samples",
        master="local[1]",
        packages=iceberg_packages("4.1"),
        config={
            "spark.driver.memory": "1g",
            "spark.sql.shuffle.partitions": "1",
            "spark.sql.extensions": ICEBERG_EXTENSIONS,
            "spark.hadoop.fs.memory.impl": "org.apache.hadoop.fs.viewfs.ViewFileSystemOverloadScheme",
            f"spark.hadoop.fs.viewfs.mounttable.samples.link./{NAMESPACE}": f"file://{folder / NAMESPACE}",
            "spark.local.dir": str(folder / "local"),
            catalog: "org.apache.iceberg.spark.SparkCatalog",
            f"{catalog}.type": "jdbc",
            f"{catalog}.uri": f"jdbc:sqlite:{folder / 'catalog.db'}",
            f"{catalog}.warehouse": ROOT,
            f"{catalog}.jdbc.schema-version": "V1",
            f"{catalog}.cache-enabled": "false",
        },
    )


class SampleMaker:
    """A table that Spark changes, and the rows it must have.

    Args:
        spark: The session of `start_spark`.
        folder: The folder of the session.
        name: The table's name.
        columns: Spark's types by column name; `id` identifies a row. None if the table is made in another way.
        partition_by: Iceberg's transforms in Spark's words.
        properties: Table properties, `format-version` first of all.
    """

    def __init__(
        self,
        spark: Any,
        folder: Path,
        name: str,
        columns: Mapping[str, str],
        *,
        partition_by: str = "",
        properties: Mapping[str, str],
    ) -> None:
        self.spark, self.folder, self.name = spark, folder, name
        self.table = f"{CATALOG}.{NAMESPACE}.{name}"
        self.columns = dict(columns)
        self.rows: dict[str, list[Row]] = {"main": []}
        self.states: dict[str, list[Row]] = {}
        self.lineage: dict[str, list[list[int]]] = {}
        self._lineage: dict[int, tuple[int, int]] = {}
        self.is_lineage_kept = properties["format-version"] == "3"
        self.is_read_by_spark = True
        self.jvm = spark._jvm
        self.iceberg = self.jvm.org.apache.iceberg
        described = ", ".join(f"{column} {type_}" for column, type_ in columns.items())
        settings = ", ".join(f"'{key}'='{value}'" for key, value in properties.items())
        partitioned = f"PARTITIONED BY ({partition_by})" if partition_by else ""
        spark.sql(f"CREATE TABLE {self.table} ({described}) USING iceberg {partitioned} TBLPROPERTIES ({settings})")

    # ---- changes ----

    def sql(self, statement: str) -> None:
        """Run a statement that changes no rows; `{t}` is the table."""
        self.spark.sql(statement.format(t=self.table))

    def insert(self, rows: Sequence[Row], *, branch: str = "main") -> None:
        """Insert rows by one task, in their order."""
        types = list(self.columns.items())
        values = ", ".join("(" + ", ".join(_literal(row[c], t) for c, t in types) + ")" for row in rows)
        names = ", ".join(name for name, _ in types)
        target = "{t}" if branch == "main" else f"{{t}}.branch_{branch}"
        statement = f"INSERT INTO {target} SELECT /*+ COALESCE(1) */ * FROM VALUES {values} AS v({names})"
        self.run(statement.replace("{t}", self.table), lambda old: [*old, *rows], branch=branch)

    def run(self, statement: str, change: Change, *, branch: str = "main") -> None:
        """Change the table by a statement and the model by a function, and note the state."""
        self.change(lambda: self.spark.sql(statement.replace("{t}", self.table)), change, branch=branch)

    def change(self, action: Callable[[], Any], change: Change, *, branch: str = "main") -> None:
        """Change the table by an action and the model by a function, and note the state."""
        action()
        before = self.rows[branch]
        self.rows[branch] = sorted(change([dict(row) for row in before]), key=lambda row: row["id"])
        snapshot = self.snapshot(branch)
        rows = self.note(str(snapshot.snapshotId()), f"VERSION AS OF {snapshot.snapshotId()}", branch)
        if self.is_lineage_kept and branch == "main":
            self._note_lineage(snapshot, before, rows)

    def reshape(self, change: Change) -> None:
        """Change the model alone, after the table's schema was changed."""
        self.rows["main"] = change([dict(row) for row in self.rows["main"]])

    # ---- states ----

    def java_table(self) -> Any:
        """Iceberg's own object of the table, newly loaded."""
        return self.iceberg.spark.Spark3Util.loadIcebergTable(self.spark._jsparkSession, self.table)

    def snapshot(self, branch: str = "main") -> Any:
        """The newest snapshot of a branch."""
        return self.java_table().snapshot(branch)

    def note(self, state: str, clause: str, branch: str = "main") -> list[Row]:
        """Keep the model's rows as those of a state; Spark has to find the same."""
        rows = [plain(row) for row in self.rows[branch]]
        self.states[state] = rows
        if not self.is_read_by_spark:
            return rows
        found = [row.asDict(recursive=True) for row in self.spark.sql(f"SELECT * FROM {self.table} {clause}").collect()]
        found = sorted((plain(row) for row in found), key=lambda row: row["id"])
        if _comparable(found) != _comparable(rows):
            raise AssertionError(f"{self.name} at {state}: Spark has {found}, the model {rows}")
        return rows

    def adopt_lineage(self) -> None:
        """Begin to follow row ids, with those that Spark finds."""
        self._lineage = self._found_lineage()
        self.is_lineage_kept = True

    def _found_lineage(self) -> dict[int, tuple[int, int]]:
        rows = self.spark.sql(f"SELECT id, _row_id, _last_updated_sequence_number FROM {self.table}").collect()
        return {row[0]: (row[1], row[2]) for row in rows}

    def _note_lineage(self, snapshot: Any, before: list[Row], after: list[Row]) -> None:
        """Rows that changed were updated by this commit, others keep their numbers; a new row's id is Spark's."""
        table, sequence_number = self.java_table(), snapshot.sequenceNumber()
        found = self._found_lineage()
        old = {row["id"]: plain(row) for row in before}
        for row in after:
            key = row["id"]
            if key not in old:
                row_id = found[key][0]
                assert row_id >= snapshot.firstRowId(), (self.name, key, row_id)
                self._lineage[key] = (row_id, sequence_number)
            elif old[key] != row:
                self._lineage[key] = (self._lineage[key][0], sequence_number)
        assert table.currentSnapshot().snapshotId() == snapshot.snapshotId()
        lineage = {row["id"]: self._lineage[row["id"]] for row in after}
        assert lineage == found, (self.name, snapshot.operation(), lineage, found)
        assert len({row_id for row_id, _ in lineage.values()}) == len(lineage), (self.name, lineage)
        self.lineage[str(snapshot.snapshotId())] = [list(lineage[row["id"]]) for row in after]

    # ---- Iceberg's Java classes ----

    def record(self, schema: Any, values: Mapping[str, Any]) -> Any:
        """A generic record; numbers become long where the column is."""
        record = self.iceberg.data.GenericRecord.create(schema)
        for name, value in values.items():
            is_long = schema.findType(name).toString() == "long"
            record.setField(name, JavaLong(value) if is_long and value is not None else value)
        return record

    def partition_of(self, values: Mapping[str, Any], spec: Any) -> Any:
        """The partition that a row belongs to."""
        schema = self.java_table().schema()
        key = self.iceberg.PartitionKey(spec, schema)
        wrapper = self.iceberg.data.InternalRecordWrapper(schema.asStruct())
        key.partition(wrapper.wrap(self.record(schema, values)))
        return key

    def write_equality_deletes(
        self,
        columns: Sequence[str],
        rows: Iterable[Mapping[str, Any]],
        *,
        file_format: str = "PARQUET",
        partition: Any = None,
    ) -> Any:
        """A file of equality deletes, not yet committed; without a partition, of the table's unpartitioned spec."""
        table = self.java_table()
        schema = table.schema().select(list(columns))
        ids = self.spark.sparkContext._gateway.new_array(self.jvm.int, len(columns))
        for index, column in enumerate(columns):
            ids[index] = schema.findField(column).fieldId()
        spec = partition[0] if partition else self.unpartitioned(table)
        file = self._output(table, file_format, spec, partition[1] if partition else None)
        builder = self.iceberg.data.GenericFileWriterFactory.Builder(table)
        builder = builder.deleteFileFormat(self._format(file_format)).equalityFieldIds(ids)
        factory = builder.equalityDeleteRowSchema(schema).build()
        writer = factory.newEqualityDeleteWriter(file, spec, partition[1] if partition else None)
        for row in rows:
            writer.write(self.record(schema, row))
        writer.close()
        return writer.toDeleteFile()

    def write_data(
        self, rows: Iterable[Mapping[str, Any]], *, file_format: str = "PARQUET", partition: Any = None
    ) -> Any:
        """A data file, not yet committed."""
        table = self.java_table()
        spec = partition[0] if partition else self.unpartitioned(table)
        file = self._output(table, file_format, spec, partition[1] if partition else None)
        builder = self.iceberg.data.GenericFileWriterFactory.Builder(table).dataFileFormat(self._format(file_format))
        writer = (
            builder.dataSchema(table.schema()).build().newDataWriter(file, spec, partition[1] if partition else None)
        )
        for row in rows:
            writer.write(self.record(table.schema(), row))
        writer.close()
        return writer.toDataFile()

    def unpartitioned(self, table: Any) -> Any:
        """The table's own spec without fields."""
        specs = table.specs()
        return next(specs[key] for key in specs if specs[key].isUnpartitioned())

    def _format(self, name: str) -> Any:
        return getattr(self.iceberg.FileFormat, name)

    def _output(self, table: Any, file_format: str, spec: Any, partition: Any) -> Any:
        builder = self.iceberg.io.OutputFileFactory.builderFor(table, 0, JavaLong(0))
        factory = builder.format(self._format(file_format)).build()
        return factory.newOutputFile(spec, partition) if partition is not None else factory.newOutputFile()

    # ---- the archive ----

    def pack(self, archives: Path = DATA) -> int:
        """Write the archive to a folder; returns its size in bytes."""
        table = self.java_table()
        self.note("current", "")
        for name, ref in table.refs().items():
            kind = "branch" if ref.isBranch() else "tag"
            if name != "main":
                self.states[f"{kind}:{name}"] = self.states[str(ref.snapshotId())]
        metadata = table.operations().current().metadataFileLocation()
        expected = {"metadata": metadata, "states": self.states, "lineage": self.lineage}
        files = {EXPECTED: json.dumps(expected, separators=(",", ":")).encode()}
        newest = metadata.removeprefix(f"{ROOT}/")
        for path in sorted((self.folder / NAMESPACE / self.name).rglob("*")):
            relative = path.relative_to(self.folder).as_posix()
            is_noise = path.name.endswith(".crc") or path.name == "_SUCCESS" or path.suffix == ".json"
            if path.is_file() and (relative == newest or not is_noise):
                files[relative] = path.read_bytes()
        packed = _tar_xz(files)
        archives.mkdir(exist_ok=True)
        (archives / f"{self.name}.tar.xz").write_bytes(packed)
        return len(packed)


def _tar_xz(files: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return lzma.compress(buffer.getvalue(), preset=9 | lzma.PRESET_EXTREME)


def _literal(value: Any, type_: str) -> str:
    return f"CAST({_expression(value, type_)} AS {type_})"


def _expression(value: Any, type_: str) -> str:
    match value:
        case None:
            return "NULL"
        case dict():
            return "named_struct(" + ", ".join(f"'{k}', {_expression(v, '')}" for k, v in value.items()) + ")"
        case list() if type_.startswith("map"):
            return "map(" + ", ".join(_expression(item, "") for pair in value for item in pair) + ")"
        case list():
            return "array(" + ", ".join(_expression(item, "") for item in value) + ")"
        case bytes():
            return f"X'{value.hex()}'"
        case bool() | int():
            return str(value)
    text = str(plain(value)) if not isinstance(value, str) else value
    return "'" + re.sub(r"(['\\])", r"\\\1", text) + "'"


def _comparable(value: Any) -> Any:
    """What Spark's Python rows tell: maps as structs, and UTC timestamps without their zone."""
    match value:
        case dict():
            return sorted((name, _comparable(item)) for name, item in value.items())
        case [[_, _], *_]:
            return sorted((pair[0], _comparable(pair[1])) for pair in value)
        case list():
            return [_comparable(item) for item in value]
        case str():
            return value.removesuffix("+00:00")
    return value
