"""pypaimon by command: a line of JSON in, a line of JSON out, tables as Arrow files; in its own environment."""

import json
import sys
import traceback

import pyarrow as pa
from pypaimon.common.identifier import Identifier
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


COMMANDS = {"read": read, "write": write}


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
