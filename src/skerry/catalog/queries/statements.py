"""SQL statements that change tables, as calls of the methods that do so; queries within them run on DuckDB."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from skerry.catalog.queries.metadata_tables import StatementCatalog
from skerry.catalog.queries.querying import run_query
from skerry.errors import FormatError, NotFoundError, SchemaError, SkerryError, UnsupportedError
from skerry.planner.tables import invalid_query
from skerry.table.merging import Delete, Insert, Update
from skerry.table.predicate.casts import parse_sql_type, sql_type

if TYPE_CHECKING:
    from skerry.table.summaries import RowChangeSummary

__all__ = ["run_statement"]

_DIALECT: Final = "duckdb"
_NAMESPACES: Final = ("SCHEMA", "DATABASE", "NAMESPACE")
_SHOW: Final = re.compile(
    r"\s*SHOW\s+(?P<what>TABLES|VIEWS|SCHEMAS|NAMESPACES|DATABASES)(?:\s+(?:FROM|IN)\s+(?P<namespace>[\w.\"]+))?\s*;?\s*",
    re.IGNORECASE,
)


def run_statement(catalog: StatementCatalog, sql: str, *, read_only: bool = False) -> pa.Table:
    """Run a statement; see `Catalog.sql`."""
    shown = _SHOW.fullmatch(sql)
    if shown is not None:
        return _show(catalog, shown["what"].upper(), shown["namespace"])
    try:
        trees: list[Any] = [tree for tree in sqlglot.parse(sql, dialect=_DIALECT) if tree is not None]
    except (SqlglotError, RecursionError) as error:
        raise invalid_query(error) from None
    if len(trees) == 1 and isinstance(trees[0], exp.Describe) and isinstance(trees[0].this, exp.Table):
        return _describe(catalog, _name(trees[0].this))
    run = _STATEMENTS.get(type(trees[0])) if len(trees) == 1 else None
    if run is None:
        return run_query(catalog, sql)  # says what is wrong if it is not a query
    if read_only:
        raise UnsupportedError(f"expected a query, found {trees[0].key.upper()}, which changes tables")
    return run(catalog, trees[0])


# ---- names and texts ----


def _name(table: Any) -> str:
    return ".".join(part.name for part in table.parts if part.name)


def _text(node: Any) -> str:
    found: str = node.sql(dialect=_DIALECT)
    return found


def _done(what: str) -> pa.Table:
    return pa.table({"done": [what]})


def _counts(done: RowChangeSummary) -> pa.Table:
    return pa.table(
        {
            "inserted_rows": [done.inserted_rows],
            "updated_rows": [done.updated_rows],
            "deleted_rows": [done.deleted_rows],
        }
    )


def _refuse(what: str) -> UnsupportedError:
    return UnsupportedError(f"{what} is not supported in SQL")


def _only(tree: Any, *allowed: str) -> None:
    """Refuse what a statement has beyond the parts that are read."""
    for part, value in tree.args.items():
        if value and part not in allowed and not (isinstance(value, exp.IndexParameters)):
            raise _refuse(f"{part.strip('_').upper()} in {tree.key.upper()}")


def _resolved(catalog: StatementCatalog, node: Any, sides: Mapping[str, str]) -> str:
    """A condition or value as our SQL: names of tables as the sides that they are, subqueries as what they give.

    Args:
        catalog: The catalog.
        node: The expression.
        sides: What is written in the place of a table's name, by that name in lower case.
    """
    node = node.copy()
    holder = exp.Paren(this=node)
    for found in list(holder.find_all(exp.Exists)):
        raise _refuse(f"EXISTS in a condition ({_text(found)[:60]})")
    for found in list(holder.find_all(exp.In)):
        if found.args.get("query"):
            values = run_query(catalog, _text(found.args["query"].unnest())).column(0).to_pylist()
            found.set("query", None)
            found.set("expressions", [exp.convert(value) for value in values] or [exp.null()])
            if not values:
                found.replace(exp.false())
    for found in list(holder.find_all(exp.Subquery)):
        rows = run_query(catalog, _text(found.this)).column(0).to_pylist()
        if len(rows) > 1:
            raise SchemaError(f"a subquery in a value must give one row, found {len(rows)}: {_text(found)[:60]}")
        found.replace(exp.convert(rows[0]) if rows else exp.null())
    for column in holder.find_all(exp.Column):
        side = sides.get(column.table.lower()) if column.table else None
        if side is not None and not column.args.get("db"):
            column.set("table", exp.to_identifier(side) if side else None)
    return _text(holder.this)


def _sides(table: Any, side: str) -> dict[str, str]:
    """The names by which a statement calls a table."""
    return dict.fromkeys({table.alias.lower()} if table.alias else {table.name.lower()}, side)


# ---- rows ----


def _insert(catalog: StatementCatalog, tree: Any) -> pa.Table:
    _only(tree, "this", "expression", "by_name", "with_")
    target, names = tree.this, None
    if isinstance(target, exp.Schema):
        target, names = target.this, [column.name for column in target.expressions]
    table = catalog.load_table(_name(target))
    source = tree.expression
    if tree.args.get("with_"):
        source.set("with_", tree.args["with_"])
    if tree.args.get("by_name"):
        rows = run_query(catalog, _text(_query_of(source)))
    else:
        rows = _typed_rows(catalog, source, table.schema, table.schema.names if names is None else names)
    table.append(rows)
    return pa.table({"inserted_rows": [rows.num_rows]})


def _query_of(source: Any) -> Any:
    return exp.select("*").from_(source) if isinstance(source, exp.Values) else source


def _typed_rows(catalog: StatementCatalog, source: Any, schema: pa.Schema, names: list[str]) -> pa.Table:
    """The rows of a query, whose columns are, in their order, those of a table, and get their types as DuckDB casts."""
    known = {name.lower(): name for name in schema.names}
    for name in names:
        if name.lower() not in known:
            raise SchemaError(f"no column {name!r} in the table; there are: {', '.join(schema.names)}")
    if isinstance(source, exp.Values) and any(len(row.expressions) != len(names) for row in source.expressions):
        raise SchemaError(f"rows have {len(source.expressions[0].expressions)} values for {len(names)} columns")
    if isinstance(source, exp.Values):
        source = exp.Values(
            expressions=source.expressions,
            alias=exp.TableAlias(
                this=exp.to_identifier("given"),
                columns=[exp.to_identifier(f"c{place}") for place in range(len(names))],
            ),
        )
    rows = run_query(catalog, _text(_query_of(source)))
    if rows.num_columns != len(names):
        raise SchemaError(f"the query gives {rows.num_columns} columns for {len(names)}: {', '.join(names)}")
    fields = [schema.field(known[name.lower()]) for name in names]
    return _converted(rows.rename_columns([field.name for field in fields]), fields)


def _converted(rows: pa.Table, fields: list[pa.Field]) -> pa.Table:
    """Rows with types that a table takes; DuckDB casts them, as it would for an INSERT of its own."""
    import duckdb

    wanted = [sql_type(field.type) for field in fields]
    known = [parse_sql_type(name.split("(")[0], _sizes(name)) is not None and name != "UUID" for name in wanted]
    columns = ", ".join(
        f"CAST({quoted} AS {type_}) AS {quoted}" if is_known else quoted
        for quoted, type_, is_known in zip(
            ['"' + field.name.replace('"', '""') + '"' for field in fields], wanted, known, strict=True
        )
    )
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("given", rows)
        try:
            found: pa.Table = connection.sql(f"SELECT {columns} FROM given").to_arrow_table()  # noqa: S608  quoted names and our types
        except duckdb.Error as error:
            raise SchemaError(f"the rows do not fit the table: {error}") from error
    return found


def _sizes(name: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", name))) if "(" in name else ()


def _delete(catalog: StatementCatalog, tree: Any) -> pa.Table:
    _only(tree, "this", "where", "tables")
    table = catalog.load_table(_name(tree.this))
    where = tree.args.get("where")
    condition = "TRUE" if where is None else _resolved(catalog, where.this, _sides(tree.this, ""))
    return _counts(table.delete(condition))


def _update(catalog: StatementCatalog, tree: Any) -> pa.Table:
    _only(tree, "this", "expressions", "where")
    sides = _sides(tree.this, "")
    table = catalog.load_table(_name(tree.this))
    where = tree.args.get("where")
    condition = None if where is None else _resolved(catalog, where.this, sides)
    return _counts(table.update(_assigned(catalog, tree.expressions, table.schema, sides), condition))


def _assigned(
    catalog: StatementCatalog, assignments: list[Any], schema: pa.Schema, sides: Mapping[str, str]
) -> dict[str, str]:
    """New values by the names that the table has for its columns."""
    known = {name.lower(): name for name in schema.names}
    found = {}
    for each in assignments:
        name = each.this.name
        found[known.get(name.lower(), name)] = _resolved(catalog, each.expression, sides)
    return found


def _merge(catalog: StatementCatalog, tree: Any) -> pa.Table:
    _only(tree, "this", "using", "on", "whens")
    target, using = tree.this, tree.args["using"]
    table = catalog.load_table(_name(target))
    if isinstance(using, exp.Table):
        bare = using.copy()
        bare.set("alias", None)
        source = run_query(catalog, _text(exp.select("*").from_(bare)))
    else:
        source = run_query(catalog, _text(using.this))
    sides = {**_sides(using, "source"), **_sides(target, "target")}
    keys = (
        [_key(part, sides) for part in tree.args["on"].flatten()]
        if isinstance(tree.args["on"], exp.And)
        else [_key(tree.args["on"], sides)]
    )
    clauses: dict[str, Any] = {"when_matched": [], "when_not_matched": [], "when_not_matched_by_source": []}
    for when in tree.args["whens"].expressions:
        kind = "when_matched"
        if not when.args.get("matched"):
            kind = "when_not_matched_by_source" if when.args.get("source") else "when_not_matched"
        condition = when.args.get("condition")
        where = None if condition is None else _resolved(catalog, condition, sides)
        clauses[kind].append(_clause(catalog, when.args["then"], where, table.schema, sides))
    given: dict[str, Any] = {kind: found or None for kind, found in clauses.items()}
    return _counts(table.merge(source, keys, **given))


def _key(condition: Any, sides: Mapping[str, str]) -> str:
    """The column of a condition `t.key = s.key`."""
    left, right = (condition.this, condition.expression) if isinstance(condition, exp.EQ) else (None, None)
    if isinstance(left, exp.Column) and isinstance(right, exp.Column):
        both = {sides.get(left.table.lower()), sides.get(right.table.lower())}
        if both == {"source", "target"} and left.name.lower() == right.name.lower():
            name: str = left.name
            return name
    raise UnsupportedError(
        f"MERGE matches rows by columns of the same name in source and table (t.id = s.id), found {_text(condition)}"
    )


def _clause(
    catalog: StatementCatalog, then: Any, where: str | None, schema: pa.Schema, sides: Mapping[str, str]
) -> Any:
    match then:
        case exp.Update():
            is_all = not then.expressions or isinstance(then.expressions, exp.Star)
            return Update(None if is_all else _assigned(catalog, then.expressions, schema, sides), where)
        case exp.Insert() if then.expression and isinstance(then.this, exp.Tuple):
            pairs = zip(then.this.expressions, then.expression.expressions, strict=True)
            return Insert({column.name: _resolved(catalog, value, sides) for column, value in pairs}, where)
        case exp.Insert() if not then.expression:
            return Insert(None, where)
        case exp.Var() if then.name.upper() == "DELETE":
            return Delete(where)
    raise _refuse(f"{_text(then)} in MERGE")


def _truncate(catalog: StatementCatalog, tree: Any) -> pa.Table:
    (target,) = tree.expressions
    return _counts(catalog.load_table(_name(target)).delete("TRUE"))


# ---- tables ----


def _create(catalog: StatementCatalog, tree: Any) -> pa.Table:
    _only(tree, "this", "kind", "exists", "replace", "properties", "expression")
    kind = tree.args["kind"].upper()
    if kind in _NAMESPACES:
        name = _name(tree.this)
        catalog.create_namespace(name, if_not_exists=bool(tree.args.get("exists")))
        return _done(f"namespace {name} created")
    if kind == "VIEW":
        catalog.create_view(_name(tree.this), _text(tree.expression), replace=bool(tree.args.get("replace")))
        return _done(f"view {_name(tree.this)} created")
    if kind != "TABLE" or tree.args.get("replace"):
        raise _refuse(f"CREATE {'OR REPLACE ' if tree.args.get('replace') else ''}{kind}")
    columns = tree.this if isinstance(tree.this, exp.Schema) else None
    name = _name(tree.this if columns is None else columns.this)
    if tree.args.get("exists") and catalog.table_exists(name):
        return _done(f"table {name} existed")
    options = _table_options(tree.args.get("properties"))
    if tree.expression:
        rows = run_query(catalog, _text(tree.expression))
        table = catalog.create_table(name, rows.schema, **options)
        try:
            table.append(rows)
        except SkerryError:
            catalog.drop_table(name, purge=True)
            raise
        return pa.table({"done": [f"table {name} created"], "inserted_rows": [rows.num_rows]})
    if columns is None:
        raise FormatError(f"CREATE TABLE {name} needs columns or AS SELECT")
    schema, key = _declared(catalog, columns.expressions)
    if key:
        options["primary_key"] = key
    catalog.create_table(name, schema, **options)
    return _done(f"table {name} created")


def _declared(catalog: StatementCatalog, parts: list[Any]) -> tuple[pa.Schema, list[str]]:
    """Columns and the primary key of a new table; DuckDB says what its types are in Arrow."""
    key: list[str] = []
    required: set[str] = set()
    types: list[Any] = []
    for part in parts:
        if isinstance(part, exp.PrimaryKey):
            key += [column.name for column in part.expressions]
        elif isinstance(part, exp.ColumnDef) and part.args.get("kind"):
            types.append(exp.alias_(exp.cast(exp.null(), part.args["kind"]), part.name, quoted=True))
            for constraint in part.args.get("constraints") or ():
                match constraint.kind:
                    case exp.NotNullColumnConstraint() if not constraint.kind.args.get("allow_null"):
                        required.add(part.name)
                    case exp.PrimaryKeyColumnConstraint():
                        key.append(part.name)
                    case exp.NotNullColumnConstraint():
                        pass
                    case _:
                        raise _refuse(_text(constraint))
        else:
            raise _refuse(_text(part))
    found = run_query(catalog, _text(exp.select(*types))).schema
    required |= set(key)
    return pa.schema([field.with_nullable(field.name not in required) for field in found]), key


def _table_options(properties: Any) -> dict[str, Any]:
    options: dict[str, Any] = {}
    others: dict[str, str] = {}
    for each in properties.expressions if properties else ():
        match each:
            case exp.FileFormatProperty():
                options["format"] = each.this.name.lower()
            case exp.PartitionedByProperty():
                options["partition_by"] = [_text(field).lower() for field in each.this.expressions]
            case exp.LocationProperty():
                options["location"] = each.this.name
            case exp.Property():
                others[each.this.name] = each.args["value"].name
            case _:
                raise _refuse(_text(each))
    return {**options, "properties": others} if others else options


def _drop(catalog: StatementCatalog, tree: Any) -> pa.Table:
    _only(tree, "this", "tables", "kind", "exists", "purge")
    kind = tree.args["kind"].upper()
    targets = tree.args.get("tables") or [tree.this]
    for target in targets:
        name = _name(target)
        try:
            if kind == "TABLE":
                table = catalog.load_table(name)
                catalog.drop_table(name, purge=bool(tree.args.get("purge")) or table.format == "paimon")
            elif kind == "VIEW":
                catalog.drop_view(name)
            elif kind in _NAMESPACES:
                catalog.drop_namespace(name)
            else:
                raise _refuse(f"DROP {kind}")
        except NotFoundError as error:
            if not tree.args.get("exists") or error.location is not None:
                raise
    return _done(f"{', '.join(_name(target) for target in targets)} dropped")


def _alter(catalog: StatementCatalog, tree: Any) -> pa.Table:
    _only(tree, "this", "kind", "actions")
    name = _name(tree.this)
    if tree.args["kind"].upper() != "TABLE":
        raise _refuse(f"ALTER {tree.args['kind']}")
    actions = tree.args["actions"]
    if len(actions) == 1 and isinstance(actions[0], exp.AlterRename):
        to = actions[0].this
        renamed = _name(to) if to.args.get("db") else ".".join([*name.split(".")[:-1], to.name])
        catalog.rename_table(name, renamed)
        return _done(f"table {name} renamed to {renamed}")
    table = catalog.load_table(name)
    if len(actions) == 1 and isinstance(actions[0], exp.AlterSet):
        pairs = [pair for part in actions[0].expressions for pair in getattr(part, "expressions", None) or [part]]
        table.set_properties({pair.this.name: (pair.args.get("value") or pair.expression).name for pair in pairs})
        return _done(f"properties of {name} set")
    with table.update_schema() as update:
        for action in actions:
            _alter_column(catalog, update, action)
    return _done(f"columns of {name} changed")


def _alter_column(catalog: StatementCatalog, update: Any, action: Any) -> None:
    match action:
        case exp.ColumnDef():
            schema, _ = _declared(catalog, [action])
            update.add_column(action.name, schema.field(0).type)
        case exp.Drop() if action.args["kind"].upper() == "COLUMN":
            for column in action.args["tables"]:
                update.delete_column(column.name)
        case exp.RenameColumn():
            update.rename_column(action.this.name, action.args["to"].name)
        case exp.AlterColumn() if action.args.get("dtype"):
            found = run_query(catalog, _text(exp.select(exp.alias_(exp.cast(exp.null(), action.args["dtype"]), "x"))))
            update.update_column(action.this.name, found.schema.field(0).type)
        case exp.AlterColumn() if action.args.get("drop") and action.args.get("allow_null"):
            update.make_column_optional(action.this.name)
        case _:
            raise _refuse(f"ALTER TABLE … {_text(action)}")


# ---- what there is ----


def _show(catalog: StatementCatalog, what: str, namespace: str | None) -> pa.Table:
    if what == "TABLES":
        return pa.table({"table": pa.array(catalog.list_tables(namespace), pa.string())})
    if what == "VIEWS":
        return pa.table({"view": pa.array(catalog.list_views(namespace), pa.string())})
    return pa.table({"namespace": pa.array(catalog.list_namespaces(), pa.string())})


def _describe(catalog: StatementCatalog, name: str) -> pa.Table:
    try:
        schema = catalog.load_table(name).schema
    except NotFoundError:
        if not catalog.view_exists(name):
            raise
        schema = catalog.load_view(name).schema
    return pa.table(
        {
            "column": schema.names,
            "type": [sql_type(field.type) for field in schema],
            "nullable": [field.nullable for field in schema],
        }
    )


_STATEMENTS: Final[dict[type[Any], Callable[[Any, Any], pa.Table]]] = {
    exp.Insert: _insert,
    exp.Delete: _delete,
    exp.Update: _update,
    exp.Merge: _merge,
    exp.TruncateTable: _truncate,
    exp.Create: _create,
    exp.Drop: _drop,
    exp.Alter: _alter,
}
