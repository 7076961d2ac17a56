"""Parsing SQL into tables, columns and conditions, and writing it back with the joins in another order.

SQL is parsed by sqlglot in DuckDB's dialect. Tables of the catalog get unique names in the executed query, one for each
reference, so that every reference has its own columns and conditions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from sqlglot import exp
from sqlglot.errors import OptimizeError, SqlglotError
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.scope import traverse_scope
from sqlglot.optimizer.simplify import simplify

from skerry.errors import FormatError, NotFoundError, SchemaError, SkerryError, UnsupportedError
from skerry.planner.groups import GroupCondition
from skerry.planner.ordering import Tree
from skerry.planner.tables import AS_OF, TableUse, ViewText, invalid_query, parse_tree, resolve_tables, stored_column
from skerry.planner.variant_values import VariantValues
from skerry.table.predicate import parse

__all__ = ["Block", "Equality", "Member", "Query", "Source", "parse_query"]

_DIALECT = "duckdb"
Equality = tuple[tuple[str, str], tuple[str, str]]
"""Two columns that are equated, each as the name of its input and its column name."""


@dataclass(slots=True)
class Source:
    """One input of a SELECT.

    Args:
        name: Its alias.
        use: The table that is read, or
        block: the SELECT whose result it is; None for one that is not planned.
        filters: Conditions on this input alone, as SQL without its alias.
        members: Conditions that a column of it is in the result of another SELECT, or is not.
        opaque: Number of its other conditions, about which statistics show nothing.
    """

    name: str
    use: TableUse | None
    block: Block | None
    filters: list[str] = field(default_factory=list)
    members: list[Member] = field(default_factory=list)
    opaque: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Member:
    """A condition such as `customer IN (SELECT …)`.

    Args:
        text: It as SQL.
        column: The column.
        block: The SELECT.
        negated: Whether it is `NOT IN`.
    """

    text: str
    column: str
    block: Block
    negated: bool


@dataclass(slots=True)
class Block:
    """One SELECT: its inputs and their join conditions.

    Args:
        select: sqlglot's tree, which `reorder` changes.
        sources: The inputs, in the order of the query.
        equalities: Columns that are equated.
        residual: Other conditions on several inputs, with the names of these inputs.
        free: Whether the inputs may be joined in any order.
        outputs: Columns of the result that are columns of an input, by name.
        groups: Columns by which the result is grouped; None if it is not. An expression among them is None.
        limit: Maximum number of rows.
        having: Conditions on groups, None for one about which nothing is known.
    """

    select: Any
    sources: list[Source]
    equalities: list[Equality]
    residual: list[tuple[frozenset[str], str]]
    free: bool
    outputs: dict[str, tuple[str, str]]
    groups: list[tuple[str, str] | None] | None
    limit: int | None
    having: Sequence[GroupCondition | None]

    def reorder(self, tree: Tree, conditions: Callable[[frozenset[str], frozenset[str]], Sequence[Equality]]) -> None:
        """Write the joins in another order; join conditions move to WHERE, where they are equivalent.

        Args:
            tree: The tree of joins, probe side first.
            conditions: The equalities by which two sets of inputs are joined.
        """
        first = self.select.args["from_"]
        joins = self.select.args.get("joins") or []
        tables = {part.alias_or_name: part for part in (first.this, *(join.this for join in joins))}
        wheres = [join.args["on"] for join in joins if join.args.get("on") is not None]

        def build(node: Tree) -> tuple[Any, frozenset[str]]:
            if isinstance(node, str):
                return tables[node].copy(), frozenset((node,))
            (left, lefts), (right, rights) = build(node[0]), build(node[1])
            pairs = conditions(lefts, rights)
            on = exp.and_(*(exp.EQ(this=_column(*a), expression=_column(*b)) for a, b in pairs)) if pairs else None
            if right.args.get("joins"):
                right = exp.Paren(this=right)
            join = exp.Join(this=right, on=on) if on is not None else exp.Join(this=right, kind="CROSS")
            left.append("joins", join)
            return left, lefts | rights

        root, _ = build(tree)
        joined = root.args.pop("joins", None) or []
        first.set("this", root)
        self.select.set("joins", joined)
        where = self.select.args.get("where")
        conjuncts = [
            part
            for condition in (where.this if where else None, *wheres)
            if condition
            for part in _conjuncts(condition)
        ]
        kept = [part.copy() for part in conjuncts if not self._is_equality(part)]
        self.select.set("where", exp.Where(this=exp.and_(*kept)) if kept else None)

    def _is_equality(self, condition: Any) -> bool:
        """Whether a condition is one of the equalities, which the joins include."""
        sources = {source.name: source for source in self.sources}
        return _equality(condition, sources) in self.equalities


@dataclass(slots=True)
class Query:
    """A parsed query.

    Args:
        tree: sqlglot's tree.
        uses: The tables that it reads.
        blocks: Its SELECTs, inner ones first.
        names: Names of its columns, as the user or the tables spell them.
        calls: Expressions that scans evaluate, by the name of the column that is in their place.
    """

    tree: Any
    uses: list[TableUse]
    blocks: list[Block]
    names: list[str]
    calls: Mapping[str, Any] = field(default_factory=dict)

    def sql(self) -> str:
        """The query as it is executed, with the keys of `uses` as tables."""
        return str(self.tree.sql(dialect=_DIALECT))

    def shown_sql(self) -> str:
        """The query with the names of the catalog, for people."""
        names = {use.key: use.table for use in self.uses}
        shown = self.tree.copy()
        for table in list(shown.find_all(exp.Table)):
            if table.name in names:
                known, _, version = names[table.name].partition(AS_OF)
                *spaces, name = known.split(".")
                name += f" as of {version}" if version else ""
                for part, value in zip(("this", "db", "catalog"), (name, *reversed(spaces)), strict=False):
                    table.set(part, exp.to_identifier(value))
        for column in list(shown.find_all(exp.Column)):
            if column.name in self.calls:
                call = self.calls[column.name].copy()
                call.expressions[0].find(exp.Column).set("table", column.args["table"].copy())
                column.replace(call)
        return str(shown.sql(dialect=_DIALECT, pretty=True))


def parse_query(sql: str, relation_of: Callable[[str], pa.Schema | ViewText], view: ViewText | None = None) -> Query:
    """Parse a query.

    Args:
        sql: A SELECT, possibly with subqueries, CTEs and set operations.
        relation_of: Returns the schema of a table of the catalog by its dotted name, or a view; raises NotFoundError.
        view: The view whose query it is, if any; it says the dialect.

    Raises:
        FormatError: The text is not a valid query.
        SchemaError: A column does not exist or is ambiguous, or a view refers to itself.
        UnsupportedError: It is another statement, or a table's columns differ only in case.
    """
    try:
        tree = parse_tree(sql, _DIALECT if view is None else view.dialect)
        written = None if tree.is_star else [projection.copy() for projection in tree.selects]
        uses, views = resolve_tables(tree, relation_of, view)
        known = {use.key: {name.lower(): "TEXT" for name in use.schema.names} for use in uses}
        tree = qualify(tree, schema=known, dialect=_DIALECT)
        values = VariantValues()
        blocks = _blocks(tree, {use.key: use for use in uses}, values)
        query = Query(tree, uses, blocks, _result_names(tree, blocks, written, views), values.replace(tree))
    except OptimizeError as error:
        raise SchemaError(f"{error}") from None
    except SqlglotError as error:
        raise invalid_query(error) from None
    except RecursionError:
        raise UnsupportedError("a query nested this deeply is not supported") from None
    except SkerryError:
        raise
    except Exception as error:  # sqlglot fails on trees that it does not support
        raise UnsupportedError(f"the query cannot be planned: {type(error).__name__}: {error}") from error
    return query


def _result_names(
    tree: Any, blocks: Sequence[Block], written: Sequence[Any] | None, views: Sequence[ViewText]
) -> list[str]:
    """The names of the result's columns: the alias, else the column of the table or view, else the expression."""
    first = tree
    while not isinstance(first, exp.Select):
        first = first.this
    block = next((block for block in blocks if block.select is first), None)
    outputs: Mapping[str, tuple[str, str]] = {} if block is None else block.outputs
    tables = set() if block is None else {source.name for source in block.sources if source.use is not None}
    spelled = {name.lower(): name for view in views for name in view.columns}
    names = []
    for number, projection in enumerate(first.selects):
        alias = projection.alias_or_name
        given = written[number] if written is not None else None
        if isinstance(given, exp.Alias):
            names.append(given.alias)
        elif given is not None and not isinstance(given, exp.Column):
            names.append(given.sql(dialect=_DIALECT))
        elif alias in outputs and outputs[alias][0] in tables:
            names.append(outputs[alias][1])
        else:
            names.append(spelled.get(alias, alias))
    return names


def _blocks(tree: Any, uses: Mapping[str, TableUse], values: VariantValues) -> list[Block]:
    """The SELECTs of a query, inner ones first; records the columns and conditions that its tables need."""
    by_select: dict[int, Block] = {}
    blocks = []
    needed: dict[str, set[str]] = {key: set() for key in uses}
    for scope in traverse_scope(tree):
        tables = {name: uses.get(node.name) for name, node in scope.sources.items() if isinstance(node, exp.Table)}
        for name, use in tables.items():
            if use is None:  # the name of a WITH that is not in scope here
                raise NotFoundError(f"no table {name!r}")
        for column in scope.columns:
            use = tables.get(column.table)
            if use is not None and not values.take(column, use):
                needed[use.key].add(column.name.lower())
        if isinstance(scope.expression, exp.Select) and scope.expression.args.get("from_") is not None:
            block = _block(scope, tables, by_select)
            by_select[id(scope.expression)] = block
            blocks.append(block)
    for key, use in uses.items():
        use.columns = [name for name in use.schema.names if name.lower() in needed[key]]
        use.columns = [*use.columns, *values.columns_of(use)] or use.schema.names[:1]
    return blocks


def _block(scope: Any, tables: Mapping[str, TableUse | None], known: Mapping[int, Block]) -> Block:
    select = scope.expression
    joins = select.args.get("joins") or []
    order = [select.args["from_"].this.alias_or_name, *(join.this.alias_or_name for join in joins)]
    sources = []
    for name in order:
        source = scope.sources.get(name)
        inner = None if isinstance(source, exp.Table) or source is None else known.get(id(source.expression))
        sources.append(Source(name, tables.get(name), inner))
    free = all(_is_inner(join) for join in joins) and not select.args.get("laterals") and len(set(order)) == len(order)
    free = free and all(
        source.use is not None or name in scope.sources for source, name in zip(sources, order, strict=True)
    )
    block = Block(select, sources, [], [], free, {}, None, None, ())
    where = select.args.get("where")
    conjuncts = _conjuncts(where.this) if where is not None else []
    outer = [_conjuncts(join.args["on"]) for join in joins if join.args.get("on") is not None]
    by_name = {source.name: source for source in sources}
    for conjunct in conjuncts:
        _classify(conjunct, block, by_name, pushes=free, known=known)
    for condition in (conjunct for part in outer for conjunct in part):
        _classify(condition, block, by_name, pushes=free)
    for projection in select.expressions:
        if isinstance(projection.unalias(), exp.Column) and projection.unalias().table in by_name:
            column = projection.unalias()
            block.outputs[projection.alias_or_name] = (column.table, _real_name(by_name, column))
    block.groups = _groups(select, by_name)
    having = select.args.get("having")
    block.having = [] if having is None else [_of_groups(part, by_name) for part in _conjuncts(having.this)]
    limit = select.args.get("limit")
    if limit is not None and isinstance(limit.expression, exp.Literal) and limit.expression.is_int:
        block.limit = int(limit.expression.name)
    return block


def _is_inner(join: Any) -> bool:
    kept = not join.side and not join.method and join.kind in ("", "INNER", "CROSS") and not join.args.get("using")
    return kept and isinstance(join.this, exp.Table | exp.Subquery) and not join.this.args.get("joins")


def _groups(select: Any, sources: Mapping[str, Source]) -> list[tuple[str, str] | None] | None:
    """The grouping of the result: groups, distinct rows, or all rows in one."""
    group = select.args.get("group")
    if group is not None:
        keys = group.expressions
    elif select.args.get("distinct") is not None:
        keys = [projection.unalias() for projection in select.expressions]
    elif any(part.find(exp.AggFunc) and not part.find(exp.Window) for part in select.expressions):
        keys = []
    else:
        return None
    return [
        (key.table, _real_name(sources, key)) if isinstance(key, exp.Column) and key.table in sources else None
        for key in keys
    ]


# ---- conditions ----


def _of_groups(condition: Any, sources: Mapping[str, Source]) -> GroupCondition | None:
    """A comparison of an aggregate with a number; None for any other condition."""
    if not isinstance(condition, exp.GT | exp.GTE | exp.LT | exp.LTE):
        return None
    left, right = condition.this.unnest(), condition.expression.unnest()
    is_above = isinstance(condition, exp.GT | exp.GTE)
    if isinstance(left, exp.Literal):
        left, right, is_above = right, left, not is_above
    if not isinstance(left, exp.Avg | exp.Count | exp.Sum) or not isinstance(right, exp.Literal) or right.is_string:
        return None
    inner = left.this
    if isinstance(inner, exp.Column) and inner.table in sources:
        column = (inner.table, _real_name(sources, inner))
    elif isinstance(left, exp.Count) and isinstance(inner, exp.Star | exp.Literal):
        column = None
    else:
        return None
    return GroupCondition(left.key, column, is_above, float(right.name))


def _conjuncts(condition: Any) -> list[Any]:
    return list(condition.flatten()) if condition.key == "and" else [condition.unnest()]


def _classify(
    conjunct: Any,
    block: Block,
    sources: Mapping[str, Source],
    *,
    pushes: bool,
    known: Mapping[int, Block] | None = None,
) -> None:
    """Assign a condition to a join, to an input, or to several; `known` are SELECTs within it."""
    conjunct = conjunct.unnest()
    if isinstance(conjunct, exp.And):
        for part in _conjuncts(conjunct):
            _classify(part, block, sources, pushes=pushes, known=known)
        return
    member = _member(conjunct, sources, known or {})
    if member is not None:
        sources[member[0]].members.append(member[1])
        return
    columns = list(conjunct.find_all(exp.Column))
    names = frozenset(column.table for column in columns if column.table in sources)
    is_closed = not conjunct.find(exp.Query) and all(column.table in sources for column in columns)
    text = conjunct.sql(dialect=_DIALECT)
    equality = _equality(conjunct, sources)
    if equality is not None:
        block.equalities.append(equality)
    elif len(names) == 1 and is_closed:
        (name,) = names
        _note_filter(sources[name], conjunct, pushes=pushes)
    elif len(names) == 1:
        (name,) = names
        sources[name].opaque.append(text)
    elif len(names) > 1:
        implied = _imply(conjunct, block, sources, pushes=pushes) if is_closed else False
        if not implied:
            block.residual.append((names, text))


def _member(conjunct: Any, sources: Mapping[str, Source], known: Mapping[int, Block]) -> tuple[str, Member] | None:
    """A test of a table's column against the result of a SELECT that refers to nothing around it, with the table."""
    negated = isinstance(conjunct, exp.Not)
    test = conjunct.this.unnest() if negated else conjunct
    query = test.args.get("query") if isinstance(test, exp.In) else None
    block = None if query is None else known.get(id(query.unnest()))
    if query is None or block is None or not isinstance(test.this, exp.Column) or len(block.select.selects) != 1:
        return None
    inside = {part.alias_or_name for part in query.find_all(exp.Table, exp.Subquery)}
    source = sources.get(test.this.table)
    if source is None or source.use is None or any(part.table not in inside for part in query.find_all(exp.Column)):
        return None
    column = _real_name(sources, test.this)
    return source.name, Member(conjunct.sql(dialect=_DIALECT), column, block, negated)


def _imply(conjunct: Any, block: Block, sources: Mapping[str, Source], *, pushes: bool) -> bool:
    """Derive from alternatives on several inputs their common conditions, and alternatives for each input."""
    if not isinstance(conjunct, exp.Or):
        return False
    branches = [_conjuncts(branch) for branch in conjunct.flatten()]
    shared = [part for part in branches[0] if all(part in branch for branch in branches[1:])]
    for part in shared:
        _classify(part, block, sources, pushes=pushes)
    found = bool(shared)
    for name, source in sources.items():
        own = [
            [
                part
                for part in branch
                if part not in shared and {column.table for column in part.find_all(exp.Column)} == {name}
            ]
            for branch in branches
        ]
        if all(own):
            _note_filter(source, exp.or_(*(exp.and_(*parts) for parts in own)), pushes=pushes)
            found = True
    return found


def _note_filter(source: Source, conjunct: Any, *, pushes: bool) -> None:
    """Add a condition to its input; one on a table is pushed to its scan, if the scan supports it."""
    bare = conjunct.copy()
    schema = source.use.schema if source.use is not None else pa.schema([])
    for column in list(bare.find_all(exp.Column)):
        value, stored, _ = stored_column(column, schema)
        bare = stored if value is bare else bare
        value.replace(stored)
    text = simplify(bare, dialect=_DIALECT).sql(dialect=_DIALECT)
    if source.use is not None:
        try:
            parse(text, source.use.schema)
        except (FormatError, SchemaError, UnsupportedError):
            source.opaque.append(text)
            return
        if pushes:
            source.use.where.append(text)
        source.filters.append(text)
    else:
        source.opaque.append(text)


def _equality(condition: Any, sources: Mapping[str, Source]) -> Equality | None:
    """The columns of two inputs that a condition equates, if that is all it does."""
    sides = (condition.this, condition.expression) if isinstance(condition, exp.EQ) else ()
    if not sides or not all(isinstance(side, exp.Column) and side.table in sources for side in sides):
        return None
    first, second = ((side.table, _real_name(sources, side)) for side in sides)
    return (first, second) if first[0] != second[0] else None


def _column(table: str, name: str) -> Any:
    return exp.column(exp.to_identifier(name, quoted=True), exp.to_identifier(table, quoted=True))


def _real_name(sources: Mapping[str, Source], column: Any) -> str:
    """A column's name as its table spells it."""
    use = sources[column.table].use
    spelled: Iterable[str] = use.schema.names if use is not None else ()
    return next((name for name in spelled if name.lower() == column.name.lower()), column.name)
