"""A scan that a server has planned, in the form of one that was planned from manifests.

What the server says is checked like a file from elsewhere. Which delete files apply to which data file is its decision;
files are pruned once more by their partitions and by the bounds that it sent, which also shows where all rows match.

Spec: Iceberg REST specification.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from skerry.errors import FormatError
from skerry.iceberg.manifests.manifest import FileContent
from skerry.iceberg.manifests.manifest_list import ManifestFile
from skerry.iceberg.manifests.map_columns import METRIC_COLUMNS
from skerry.iceberg.metadata.json_object import JsonObject
from skerry.iceberg.metadata.schema import Schema
from skerry.iceberg.planning.delete_index import Assignment
from skerry.iceberg.planning.expression_json import expression_of
from skerry.iceberg.planning.file_pruning import FILE_COLUMNS, STEPS, FilePruner, Pruned, ReadManifest
from skerry.iceberg.planning.plan import ScanPlanner
from skerry.iceberg.planning.planned_files import PlannedFiles
from skerry.iceberg.planning.server_files import (
    DELETE_TYPES,
    RULE,
    Bounds,
    PartitionReader,
    columns_of_files,
    file_of,
    is_ambiguous,
)
from skerry.table.files.scan_task import ScanPlan, ScanStep, sum_steps
from skerry.table.predicate import Predicate, columns_of

__all__ = ["plan_of_server", "plan_request"]


def plan_request(
    schema: Schema,
    others: Sequence[Schema],
    *,
    snapshot_id: int,
    start_snapshot_id: int | None = None,
    use_snapshot_schema: bool,
    columns: Iterable[int],
    predicate: Predicate,
) -> dict[str, Any]:
    """What a server is asked for.

    Servers find columns by name, some in the schema of the table and some in that of the snapshot. A column is only
    named if it has the same name and type in both.

    Args:
        schema: The schema of the scan.
        others: Schemas in which the server may look for names.
        snapshot_id: The snapshot to read.
        start_snapshot_id: Where an incremental plan begins, of rows that were appended since; None for all rows.
        use_snapshot_schema: Whether it is read with the schema of its time.
        columns: Ids of the fields to read, without metadata columns.
        predicate: The condition.

    Returns:
        A `PlanTableScanRequest`. The number of rows is left out: a server that stopped at so many could not know how
        many of them are deleted, or match.
    """

    def is_known(number: int) -> bool:
        name = schema.find_column_name(number)
        if name is None:
            return False
        type_ = schema.find_type(number)
        return all(other.find_column_name(number) == name and other.find_type(number) == type_ for other in others)

    is_whole = start_snapshot_id is None
    request: dict[str, Any] = {
        **(
            {"snapshot-id": snapshot_id}
            if is_whole
            else {"start-snapshot-id": start_snapshot_id, "end-snapshot-id": snapshot_id}
        ),
        "case-sensitive": True,
        "use-snapshot-schema": use_snapshot_schema,
    }
    wanted = list(dict.fromkeys(columns))
    if wanted and all(map(is_known, wanted)):
        request["select"] = [schema.find_column_name(number) for number in wanted]
    expression = expression_of(predicate, schema, is_known)
    if expression is not True:
        request["filter"] = expression
    tested = sorted({column.field_id for column in columns_of(predicate) if is_known(column.field_id)})
    if tested:
        request["stats-fields"] = [
            schema.find_column_name(number) for number in _with_witness(tested, schema, is_known)
        ]
    return request


def _with_witness(tested: list[int], schema: Schema, is_known: Any) -> list[int]:
    """Columns and, if their bounds do not show in which form they are, another one whose bounds do."""
    if not all(is_ambiguous(schema.find_type(number)) for number in tested):
        return tested
    clear = (
        field.field_id
        for field in schema.fields
        if field.field_type.is_primitive and not is_ambiguous(field.field_type) and is_known(field.field_id)
    )
    return [*tested, *([number] if (number := next(clear, None)) is not None else [])]


def plan_of_server(
    parts: Sequence[Mapping[str, Any]], planner: ScanPlanner, schemas: Mapping[int, Schema]
) -> ScanPlan[PlannedFiles]:
    """The plan that a server's answers describe.

    Args:
        parts: The answers.
        planner: The planner of the same scan from manifests, for its condition and its checks.
        schemas: For every partition spec, by id, a schema that has its columns.

    Raises:
        FormatError: An answer does not follow the specification.
        SkerryError: A file is outside of the table's folders.
        UnsupportedError: Files are encrypted.
    """
    return _ServerPlan(planner, schemas).read(parts)


class _ServerPlan:
    """The files of a plan, as they are collected from its parts."""

    def __init__(self, planner: ScanPlanner, schemas: Mapping[int, Schema]) -> None:
        self._planner = planner
        self._partitions = {number: PartitionReader(spec, schemas[number]) for number, spec in planner.specs.items()}
        self._files: dict[str, dict[str, Any]] = {}
        self._deletes_of: dict[str, list[int]] = {}
        self._deletes: list[dict[str, Any]] = []
        self._numbers: dict[tuple[str, int | None, str | None], int] = {}

    def read(self, parts: Sequence[Mapping[str, Any]]) -> ScanPlan[PlannedFiles]:
        for number, part in enumerate(parts):
            self._add(JsonObject(part, f"part {number} of the plan", RULE))
        pruned = self._pruned()
        batches = tuple(found.batch for found in pruned)
        deletes = pa.RecordBatch.from_arrays(
            [
                pa.array([row[name] for row in self._deletes], DELETE_TYPES.field(name).type)
                for name in DELETE_TYPES.names
            ],
            schema=DELETE_TYPES,
        )
        self._planner.check_locations(deletes.column("file_path"))
        paths = [path for batch in batches for path in batch.files.column("file_path").to_pylist()]
        found = [self._deletes_of[path] for path in paths]
        offsets = np.concatenate([[0], np.cumsum([len(rows) for rows in found])]).astype(np.int64)
        assignment = Assignment(offsets, np.array([row for rows in found for row in rows], np.int64))
        steps = [sum_steps([part.steps[number] for part in pruned], name) for number, name in enumerate(STEPS)]
        if self._deletes:
            kept = len(np.unique(assignment.rows))
            steps.append(ScanStep("delete files", len(self._deletes), kept, None, None))
        return ScanPlan(PlannedFiles(batches, deletes, assignment, self._planner.defaults), tuple(steps))

    # ---- parts ----

    def _add(self, part: JsonObject) -> None:
        deletes = [self._delete(item) for item in part.objects("delete-files")]
        for task in part.objects("file-scan-tasks"):
            item = task.object("data-file")
            file = file_of(item)
            if file["content"] != FileContent.DATA:
                raise item.error("content", "a scan task reads a delete file")
            path = file["file_path"]
            if path in self._files:
                raise FormatError("the plan has a data file twice", location=path, rule=RULE)
            self._partition(item, file)
            self._files[path] = file
            references = task.integers("delete-file-references")
            if len(set(references)) != len(references) or not all(0 <= at < len(deletes) for at in references):
                raise task.error("delete-file-references", f"expected distinct numbers below {len(deletes)}")
            self._deletes_of[path] = [self._applied(deletes[at], path) for at in references]
            self._check_vectors(path)

    def _partition(self, item: JsonObject, file: dict[str, Any]) -> None:
        reader = self._partitions.get(file["spec_id"])
        if reader is None:
            raise item.error("spec-id", f"the table has no partition spec {file['spec_id']}")
        file["partition"] = reader.values(item)

    def _delete(self, item: JsonObject) -> dict[str, Any]:
        file = file_of(item)
        self._partition(item, file)
        is_vector = file["file_format"] == "puffin"
        if file["content"] == FileContent.DATA:
            raise item.error("content", "a data file among the delete files")
        if file["content"] == FileContent.EQUALITY_DELETES:
            if not file["equality_ids"]:
                raise item.error("equality-ids", "an equality delete file has none")
            file["referenced_data_file"] = None
        if is_vector and (file["content_offset"] is None or file["content_size_in_bytes"] is None):
            raise item.error("content-offset", "a deletion vector needs content-offset and content-size-in-bytes")
        if is_vector and file["content"] != FileContent.POSITION_DELETES:
            raise item.error("content", "a deletion vector holds positions")
        return file

    def _applied(self, delete: dict[str, Any], path: str) -> int:
        """The number of a delete file, which applies to a data file."""
        named = delete["referenced_data_file"]
        if named is not None and named != path:
            raise FormatError(f"deletes of {named} are applied to another file", location=path, rule=RULE)
        if delete["file_format"] == "puffin":
            delete = {**delete, "referenced_data_file": path}  # the specification has no such field
        key = (delete["file_path"], delete["content_offset"], delete["referenced_data_file"])
        number = self._numbers.setdefault(key, len(self._deletes))
        if number == len(self._deletes):
            self._deletes.append(delete)
        return number

    def _check_vectors(self, path: str) -> None:
        vectors = [number for number in self._deletes_of[path] if self._deletes[number]["file_format"] == "puffin"]
        if len(vectors) > 1:
            raise FormatError("a data file has two deletion vectors", location=path, rule=RULE)

    # ---- pruning ----

    def _pruned(self) -> list[Pruned]:
        """The files by partition spec, without those that cannot match."""
        bounds = Bounds(self._planner.schema, list(self._files.values()))
        groups: dict[int, list[dict[str, Any]]] = {}
        for path, file in self._files.items():
            for name in ("lower_bounds", "upper_bounds"):
                file[name] = bounds.encoded(file[name], path)
            groups.setdefault(file["spec_id"], []).append(file)
        pruner = FilePruner(self._planner.schema, self._planner.conjuncts)
        found = []
        for spec_id, files in groups.items():
            reader = self._partitions[spec_id]
            partition = reader.column([file["partition"] for file in files])
            entries = columns_of_files(files, (*FILE_COLUMNS, *METRIC_COLUMNS), partition)
            self._planner.check_locations(entries.column("file_path"))
            manifest = ManifestFile("the server's plan", 0, spec_id)
            found.append(pruner.prune([ReadManifest(manifest, entries)], reader.spec))
        return found
