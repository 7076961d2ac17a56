"""No module deletes files that it has written for a commit: that is `skerry.table.owned_files`, and nothing else.

The modules named here delete what others have written, or what is no commit's. Whoever adds one says why.
"""

import ast
from pathlib import Path

import skerry

MAY_DELETE = {
    "table/owned_files.py": "the one place",
    # what no state needs any more
    "iceberg/old_metadata.py": "metadata files that the log has forgotten, and statistics that only they name",
    "iceberg/transaction.py": "statistics that later changes of a transaction replaced",
    "iceberg/jobs/expire.py": "files of expired snapshots",
    "jobs/orphans.py": "orphans",
    "iceberg/jobs/purge.py": "files of a dropped table",
    "catalog/paimon_tables.py": "files of a dropped table",
    "paimon/automatic_tags.py": "the success file of a deleted tag",
    "paimon/commit.py": "a snapshot whose number was free only because others had expired",
    "paimon/metadata/branches.py": "a dropped branch",
    "paimon/jobs/expire.py": "expired snapshots",
    "migration/iceberg_mirror.py": "Iceberg metadata of older snapshots, and of those that were taken back",
    "migration/metadata_removal.py": "schemas and snapshots of a migrated table",
    "paimon/metadata/stream_marks.py": "the mark of a batch that failed",
    "paimon/refs.py": "snapshots that were rolled back",
    "paimon/metadata/tags.py": "a dropped tag",
    # what lies beside the files that were written
    "amudai/writing/shard_writer.py": "stripes and indexes of a shard that is given up",
    "amudai/writing/row_indexes.py": "indexes of a shard that is given up",
    "amudai/writing/external_parquet.py": "indexes of a shard that is given up",
    "spark/writing/arrow_writer.py": "files of repeated tasks",
    "spark/writing/spark_writer.py": "Hadoop's checksums",
    # the interfaces of other libraries
    "iceberg/catalogs/pyiceberg_files.py": "PyIceberg's FileIO",
}


def deletes(source):
    """Lines that call `delete` of a storage."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "delete":
            owner = ast.unparse(node.func.value)
            if owner.lower().endswith("storage"):
                yield node.lineno


def test_files_are_deleted_in_few_places():
    root = Path(skerry.__file__).parent
    found = {}
    for path in sorted(root.rglob("*.py")):
        name = str(path.relative_to(root))
        lines = list(deletes(path.read_text()))
        if lines and not name.startswith("storage/"):
            found[name] = lines
    assert {name: lines for name, lines in found.items() if name not in MAY_DELETE} == {}
    assert set(MAY_DELETE) <= set(found), "the list names modules that delete nothing any more"


def test_nobody_cleans_up_by_hand_after_an_unknown_outcome():
    """`except CommitUnknownError: raise` with a clean-up behind it is what `owned_files` is for."""
    root = Path(skerry.__file__).parent
    may = {
        "catalog/new_tables.py": "a table that is dropped, not files",
        "iceberg/catalogs/rest.py": "passes it on",
        "iceberg/commit.py": "passes it on",
        "iceberg/transaction.py": "reads it back",
        "iceberg/jobs/compact.py": "goes on with other groups",
        "iceberg/jobs/relocate.py": "reads it back",
        "paimon/jobs/once.py": "a mark that is restored",
        "catalog/paimon_jdbc.py": "leaves the folder where it may belong",
        "paimon/catalogs/jdbc_lock.py": "of a lock, before anything is published",
        "paimon/jobs/compact.py": "goes on with other buckets",
        "table/owned_files.py": "the one place",
    }
    found = set()
    for path in root.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ExceptHandler) and "CommitUnknownError" in ast.unparse(node.type or node):
                found.add(str(path.relative_to(root)))
    assert found == set(may)
