"""pypaimon by command: a line of JSON in, a line of JSON out, tables as Arrow files; in its own environment."""

import json
import sys
import traceback

import pyarrow as pa
from pypaimon import CatalogFactory, Schema
from pypaimon.common.identifier import Identifier
from pypaimon.globalindex.create_global_index import create_global_index
from pypaimon.schema.schema_change import SchemaChange
from pypaimon.schema.schema_manager import SchemaManager
from pypaimon.table.file_store_table import FileStoreTable


def table_of(path, branch=None, options=None):
    table = FileStoreTable.from_path(path)
    if branch is not None:
        schema = SchemaManager(table.file_io, path, branch=branch).latest()
        table = FileStoreTable(table.file_io, Identifier("default", "table", branch=branch), path, schema)
    return table.copy(dict(options)) if options else table


def read(command):
    builder = table_of(command["path"], command.get("branch"), command.get("options")).new_read_builder()
    for column, value in (command.get("equal") or {}).items():
        made = builder.new_predicate_builder()
        builder = builder.with_filter(made.is_null(column) if value is None else made.equal(column, value))
    rows = builder.new_read().to_arrow(builder.new_scan().plan().splits())
    with pa.ipc.new_file(command["out"], rows.schema) as writer:
        writer.write_table(rows)
    return {"rows": rows.num_rows}


def write(command):
    table = table_of(command["path"])
    with pa.ipc.open_file(command["data"]) as reader:
        rows = reader.read_all()
    builder = table.new_batch_write_builder()
    if "overwrite" in command:
        builder = builder.overwrite(command["overwrite"])
    writer, commit = builder.new_write(), builder.new_commit()
    writer.write_arrow(rows)
    commit.commit(writer.prepare_commit())
    writer.close()
    commit.close()
    return {}


def index(command):
    return {"files": create_global_index(table_of(command["path"]), command["column"])}


def run_command(catalog, verb, database=None, table=None, *more):
    name = f"{database}.{table}"
    match verb:
        case "databases":
            return catalog.list_databases()
        case "tables":
            return catalog.list_tables(database)
        case "create database":
            catalog.create_database(database, False)
        case "create":
            columns = pa.schema([pa.field("id", pa.int64(), nullable=False), ("name", pa.string())])
            made = Schema.from_pyarrow_schema(columns, primary_keys=["id"], options={"bucket": "2"})
            catalog.create_table(name, made, False)
        case "rename":
            catalog.rename_table(name, ".".join(more))
        case "drop":
            catalog.drop_table(name, False)
        case "set":
            catalog.alter_table(name, [SchemaChange.set_option(*more)])
        case "write":
            rows = [row for _, row in more[0]]
            columns = pa.schema([pa.field("id", pa.int64(), nullable=False), ("name", pa.string())])
            builder = catalog.get_table(name).new_batch_write_builder()
            writer, commit = builder.new_write(), builder.new_commit()
            writer.write_arrow(pa.table([list(column) for column in zip(*rows, strict=True)], schema=columns))
            commit.commit(writer.prepare_commit())
            writer.close()
            commit.close()
        case "read":
            builder = catalog.get_table(name).new_read_builder()
            rows = builder.new_read().to_arrow(builder.new_scan().plan().splits())
            return [list(row.values()) for row in rows.to_pylist()]
        case _:
            raise ValueError(verb)
    return None


def run_catalog(command):
    catalog = CatalogFactory.create(command["options"])
    try:
        return {"found": [run_command(catalog, *one) for one in command["commands"]]}
    finally:
        if hasattr(catalog, "close"):
            catalog.close()


COMMANDS = {"read": read, "write": write, "catalog": run_catalog, "index": index}


def main():
    replies, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        command = json.loads(line)
        try:
            reply = {"ok": True, **COMMANDS[command["do"]](command)}
        except Exception:
            reply = {"ok": False, "error": traceback.format_exc()}
        print(json.dumps(reply), file=replies, flush=True)


main()
