"""What someone new tries first: data as it is at hand, times as people write them, names in parts, rows in one word."""

from __future__ import annotations

import contextlib
import datetime as dt
import decimal
import re
import sys
import warnings

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.orc
import pyarrow.parquet as pq
import pytest

import skerry
from skerry.errors import AlreadyExistsError, NotFoundError, SchemaError

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("at", pa.timestamp("us"))])
ROWS = pa.table({"id": [1, 2], "name": ["a", None], "at": [dt.datetime(2024, 1, 1), None]}, SCHEMA)


@pytest.fixture
def catalog(tmp_path):
    return skerry.connect(tmp_path / "warehouse")


@pytest.fixture(params=["iceberg", "paimon"])
def table(request, catalog):
    return catalog.create_table("shop.sales", SCHEMA, format=request.param)


def write(kind, folder):
    path = folder / f"rows.{kind}"
    if kind == "parquet":
        pq.write_table(ROWS, path)
    elif kind == "orc":
        pa.orc.write_table(ROWS, path)
    else:
        path.write_text("id,name,at\n1,a,2024-01-01\n2,,\n".replace(",", "\t" if kind == "tsv" else ","))
    return path


GIVEN = {
    "records": lambda folder: ROWS.to_pylist(),
    "iterator of records": lambda folder: iter(ROWS.to_pylist()),
    "generator that leaves out": lambda folder: (
        {k: v for k, v in row.items() if v is not None} for row in ROWS.to_pylist()
    ),
    "iterator of batches": lambda folder: iter(ROWS.to_batches(max_chunksize=1)),
    "list of tables": lambda folder: [ROWS.slice(0, 1), ROWS.slice(1)],
    "columns": lambda folder: ROWS.to_pydict(),
    "lazy frame": lambda folder: pl.from_arrow(ROWS).lazy(),
    "parquet": lambda folder: write("parquet", folder),
    "its name": lambda folder: str(write("parquet", folder)),
    "csv": lambda folder: write("csv", folder),
    "tsv": lambda folder: write("tsv", folder),
    "orc": lambda folder: write("orc", folder),
    "folder": lambda folder: write("parquet", folder).parent,
    "dataset": lambda folder: pyarrow.dataset.dataset(write("parquet", folder)),
}


@pytest.mark.parametrize("kind", GIVEN)
def test_rows_are_appended_as_they_are_at_hand(kind, table, tmp_path):
    folder = tmp_path / "given"
    folder.mkdir()
    table.append(GIVEN[kind](folder))
    assert sorted(table.to_arrow().to_pylist(), key=lambda row: row["id"]) == ROWS.to_pylist()


def test_many_records_come_in_parts(catalog):
    table = catalog.create_table("shop.numbers", pa.schema([("n", pa.int64()), ("late", pa.string())]))
    table.append({"n": n, "late": "x" if n == 25_000 else None} for n in range(30_000))
    assert table.count() == 30_000
    assert table.count("late = 'x'") == 1
    with pytest.raises(SchemaError, match="a record has the column 'late', which the first 10,000 records lack"):
        table.append({"n": n, **({"late": "x"} if n == 25_000 else {})} for n in range(30_000))
    assert table.count() == 30_000


def test_no_column_of_a_file_is_left_out(catalog, tmp_path):
    """PyArrow's datasets have the columns of the first file, and of the first megabyte of JSON."""
    table = catalog.create_table("shop.numbers", pa.schema([("n", pa.int64()), ("late", pa.string())]))
    path = tmp_path / "lines.jsonl"
    lines = "".join(f'{{"n": {n}}}\n' for n in range(200_000))
    path.write_text(lines + '{"n": 7, "late": "x"}\n')
    with pytest.raises(SchemaError, match=r"lines\.jsonl': a record has a key that the first ones lack"):
        table.append(path)
    path.write_text('{"n": 7, "late": null}\n' + lines + '{"n": null, "late": "x"}\n')
    table.append(path)
    assert (table.count(), table.count("late = 'x'")) == (200_002, 1)
    folder = tmp_path / "folder"
    folder.mkdir()
    for kind in ("parquet", "orc"):
        write_table = pq.write_table if kind == "parquet" else pa.orc.write_table
        write_table(pa.table({"n": [1]}), folder / f"1.{kind}")
        write_table(pa.table({"n": [2], "late": ["y"]}), folder / f"2.{kind}")
        with pytest.raises(SchemaError, match=rf"2\.{kind}' has columns that .*1\.{kind}' has not: late"):
            table.append(folder)
        for file in folder.iterdir():
            file.unlink()
    assert table.refresh().count() == 200_002


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        ([{"id": 1, "nam": "x"}], SchemaError, "the table has no column 'nam'; did you mean 'name'"),
        ([{"id": "x"}], SchemaError, "column 'id' is string in the data, but int64"),
        ([{"id": 1}, 7], SchemaError, "an iterator of records gave int: 7"),
        ([{"id": 1}, {"id": "x"}], SchemaError, "column 'id' has values of different types"),
        ("nowhere.parquet", NotFoundError, "there is no file 'nowhere.parquet' to read rows from"),
        (7, SchemaError, "records, or the name of a file"),
        ([7], SchemaError, "records, or the name of a file"),
        (b"x", SchemaError, "records, or the name of a file"),
    ],
)
def test_what_is_no_data_is_named_and_nothing_is_written(catalog, data, error, message):
    table = catalog.create_table("shop.sales", SCHEMA)
    with pytest.raises(error, match=message):
        table.append(data)
    assert table.current_snapshot() is None


def test_a_folder_of_mixed_files_is_refused(catalog, tmp_path):
    write("csv", tmp_path)
    write("parquet", tmp_path)
    table = catalog.create_table("shop.sales", SCHEMA)
    with pytest.raises(SchemaError, match=r"files of one of .*found \.csv, \.parquet"):
        table.append(tmp_path)
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(SchemaError, match=r"found \.txt"):
        table.append(tmp_path / "notes.txt")


def test_no_records_are_no_rows(table):
    table.append([])
    table.append(iter(()))
    assert table.count() == 0


def test_rows_in_one_word(table):
    table.append(ROWS)
    assert table.head(1).num_rows == 1
    assert table.count() == 2
    assert table.count("id = ?", parameters=[2]) == 1
    assert table.to_arrow().sort_by("id").to_pylist() == ROWS.to_pylist()
    assert sorted(table.to_pandas()["id"]) == sorted(table.to_polars()["id"]) == [1, 2]
    assert list(table.scan(where="id = 2").to_pandas()["id"]) == [2]
    assert table.to_duckdb().aggregate("sum(id)").to_arrow_table().column(0).to_pylist() == [3]
    assert pa.table(table).num_rows == 2
    assert pl.DataFrame(table).height == 2
    table.append(table)
    assert table.count() == 4


def test_times_as_people_write_them(table):
    table.append(ROWS)
    for moment in (
        "2100-01-01",
        "2100-01-01T12:00:00+02:00",
        dt.date(2100, 1, 1),
        dt.timedelta(0),
        dt.datetime(2100, 1, 1),
    ):
        assert table.scan(as_of=moment).count() == 2, moment
    with pytest.raises(NotFoundError):
        table.scan(as_of=dt.timedelta(days=7))
    with pytest.raises(SchemaError, match="as_of takes a time such as '2024-05-01 12:00:00', found 'yesterday'"):
        table.scan(as_of="yesterday")
    assert table.expire_snapshots(older_than="2020-01-01").snapshot_ids == ()
    assert table.expire_snapshots(older_than=dt.date(2020, 1, 1)).snapshot_ids == ()


def test_names_in_parts_and_tables_by_name(catalog):
    made = catalog.create_table(("shop", "sales"), SCHEMA)
    assert made.name == catalog["shop.sales"].name == catalog["shop", "sales"].name == "shop.sales"
    assert (
        catalog.create_table("shop.sales", pa.schema([("x", pa.int8())]), if_not_exists=True).schema.names
        == SCHEMA.names
    )
    with pytest.raises(AlreadyExistsError):
        catalog.create_table("shop.sales", SCHEMA)
    assert catalog.table_exists(("shop", "sales"))
    assert catalog.rename_table(("shop", "sales"), ("shop", "sold")).name == "shop.sold"
    catalog.drop_table(("shop", "sold"))
    assert catalog.list_tables() == []
    with pytest.raises(SchemaError, match="a name in parts is one of texts without dots"):
        catalog.load_table(("a.b", "c"))
    catalog.create_table("shop.sales", SCHEMA)
    with pytest.raises(NotFoundError, match=r"did you mean 'shop\.sales'"):
        catalog["shop.sale"]


@pytest.mark.parametrize("format", ["iceberg", "paimon"])
def test_namespaces_go_when_they_are_empty(catalog, format, tmp_path):
    catalog.create_namespace("shop", if_not_exists=True)
    catalog.create_table("shop.sales", SCHEMA, format=format)
    catalog.create_namespace("shop", if_not_exists=True)
    catalog.create_namespace("shop.old")
    with pytest.raises(SchemaError, match=r"'shop' is not empty: it holds shop\.sales, shop\.old"):
        catalog.drop_namespace("shop")
    catalog.drop_namespace("shop.old")
    catalog.drop_table("shop.sales", purge=True)
    with pytest.raises(NotFoundError, match="did you mean 'shop'"):
        catalog.drop_namespace("shopp")
    catalog.drop_namespace("shop")
    catalog.drop_namespace("shop", if_exists=True)
    assert catalog.list_namespaces() == []
    assert not (tmp_path / "warehouse" / "shop.db").exists()


def test_a_folder_with_files_of_others_stays(catalog, tmp_path):
    catalog.create_table("shop.sales", SCHEMA, format="paimon")
    catalog.drop_table("shop.sales", purge=True)
    (tmp_path / "warehouse" / "shop.db" / "notes.txt").write_text("mine")
    with pytest.raises(SchemaError, match=r"a file is in its folder.*notes\.txt"):
        catalog.drop_namespace("shop")
    assert catalog.list_namespaces() == ["shop"]


def test_records_get_the_types_of_the_columns_they_replace(catalog):
    schema = pa.schema([("id", pa.int32()), ("price", pa.decimal128(9, 2)), ("day", pa.date32())])
    for name, format in (("a.t", "iceberg"), ("a.u", "paimon")):
        table = catalog.create_table(name, schema, format=format)
        table.append([{"id": 1, "price": decimal.Decimal("1.50"), "day": dt.date(2024, 1, 1)}])
        table.upsert([{"id": 1, "price": 2, "day": None}, {"id": 2, "price": 3, "day": None}], on="id")
        table.overwrite([{"id": 2, "price": 4, "day": None}], "id = 2")
        assert sorted(map(str, table.to_arrow()["price"].to_pylist())) == ["2.00", "4.00"]


def test_columns_that_the_table_lacks_come_with_the_rows_if_asked(table):
    more = pa.table({"id": [3], "score": [1.5]})
    with pytest.raises(SchemaError, match="the table has no column 'score'"):
        table.append(more)
    table.append(ROWS)
    table.append(more, schema="evolve")
    table.append([{"id": 4, "note": "new"}], schema="evolve")
    table.append(ROWS.slice(0, 0), schema="evolve")
    assert table.schema.names == [*SCHEMA.names, "score", "note"]
    found = {row["id"]: (row["name"], row["score"], row["note"]) for row in table.to_arrow().to_pylist()}
    assert found == {1: ("a", None, None), 2: (None, None, None), 3: (None, 1.5, None), 4: (None, None, "new")}
    with pytest.raises(SchemaError, match="schema must be 'match' or 'evolve', found 'merge'"):
        table.append(more, schema="merge")


def test_a_folder_of_a_table_is_no_warehouse(table, tmp_path):
    table.append(ROWS)
    folder = next(tmp_path.rglob("sales"))
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(SchemaError, match=r"is the folder of a table, not of a warehouse: skerry\.open_table"):
        skerry.connect(folder)
    assert sorted(tmp_path.rglob("*")) == before


def test_the_log_is_quiet_and_says_what_is_committed_if_asked(table, caplog):
    table.append(ROWS)
    assert not caplog.records
    with caplog.at_level("INFO", logger="skerry"):
        table.append(ROWS)
    (record,) = caplog.records
    assert record.name == "skerry"
    assert record.getMessage().startswith("shop.sales: committed Append")


def test_the_log_tells_conflicts_retries_and_clean_ups(catalog, caplog):
    table = catalog.create_table("a.t", SCHEMA, properties={"commit.retry.min-wait-ms": "1"})
    rival, before = catalog["a.t"], table.handle.catalog.commit_table
    table.append(ROWS)

    def lose_once(*arguments, **named):
        table.handle.catalog.commit_table = before
        rival.append(ROWS)
        return before(*arguments, **named)

    table.handle.catalog.commit_table = lose_once
    with caplog.at_level("INFO", logger="skerry"):
        table.append(ROWS)
        table.expire_snapshots(keep_last=1, older_than=dt.timedelta(0))
        catalog.drop_table("a.t", purge=True)
    said = [record.getMessage() for record in caplog.records]
    for part in (
        r"a\.t: conflict in attempt 1 of Append\w*: ",
        r"a\.t: Append\w* is tried again after \d+ ms",
        r": deleted \d+ files that belong to no table in \d+ ms",
        r"a\.t: deleted \d+ files of expired snapshots in \d+ ms",
        r"a\.t: deleted \d+ files of the dropped table in \d+ ms",
    ):
        assert any(re.search(part, text) for text in said), (part, said)


LAZY = {
    "comparison": (pl.col("n") > 95, {"n": 4}),
    "equal": (pl.col("s") == "s7", {"s": 1}),
    "reversed": (pl.lit(95) < pl.col("n"), {"n": 4}),
    "nan is the largest": (pl.col("f") > 97.5, {"f": 2}),
    "at least": ((pl.col("n") >= 98) & (pl.col("n") + 1 > 99), {"n": 1}),
    "either": ((pl.col("n") == 1) | pl.col("s").is_null(), {"n": 2}),
    "not": (~((pl.col("n") > 2) | pl.col("b")), {"n": 1}),
    "list": (pl.col("n").is_in([1, 2, 300]), {"n": 2}),
    "between": (pl.col("n").is_between(3, 5), {"n": 3}),
    "prefix": (pl.col("s").str.starts_with("s9"), {"s": 11}),
    "ending, which a scan does not know": (pl.col("s").str.ends_with("9"), {"s": 10}),
    "time": (pl.col("t") < dt.datetime(2024, 1, 3), {"t": 2}),
    "another type": (pl.col("n").cast(pl.String) == "5", {"n": 1}),
}


@pytest.mark.parametrize("expression", LAZY)
def test_a_lazy_frame_reads_what_its_plan_needs(expression, lazy_table, monkeypatch):
    predicate, ((column, rows),) = LAZY[expression][0], LAZY[expression][1].items()
    frame = lazy_table.lazy()
    asked = []
    scan = lazy_table.scan
    monkeypatch.setattr(lazy_table, "scan", lambda *given, **named: asked.append(given) or scan(*given, **named))
    found = frame.filter(predicate).select(column).collect()
    expected = lazy_table.to_polars().filter(predicate).select(column)
    assert found.height == rows
    assert found.equals(expected, null_equal=True)
    (columns, where), *_ = asked
    assert set(columns) == {column, *predicate.meta.root_names()}
    assert (where is None) == (expression in ("ending, which a scan does not know", "another type"))


@pytest.fixture(scope="module")
def lazy_table(tmp_path_factory):
    rows = pa.table(
        {
            "n": pa.array(range(100), pa.int32()),
            "s": [f"s{n}" if n != 50 else None for n in range(100)],
            "f": [float(n) if n != 3 else float("nan") for n in range(99)] + [None],
            "b": [n % 2 == 0 for n in range(100)],
            "t": [dt.datetime(2024, 1, 1) + dt.timedelta(days=n) for n in range(100)],
        }
    )
    table = skerry.connect(tmp_path_factory.mktemp("lazy")).create_table("a.t", rows.schema)
    table.append(rows)
    return table


def test_a_lazy_frame_is_of_its_snapshot_and_stops_early(table):
    table.append(ROWS)
    frame = table.lazy()
    table.append(ROWS)
    assert frame.select(pl.len()).collect().item() == 2
    assert frame.head(1).collect().height == 1
    assert frame.filter(pl.col("id") > 0).head(1).collect()["id"].to_list() == [1]
    assert "SKERRY" in frame.explain()
    assert frame.collect_schema().names() == SCHEMA.names


def test_duckdb_finds_tables_and_scans_by_their_names(table):
    table.append(ROWS)
    chosen = table.scan(where="id = 2")
    sales = table
    found = duckdb.sql("SELECT sum(sales.id), count(chosen.id) FROM sales LEFT JOIN chosen USING (id)").fetchall()
    assert found == [(3, 1)]
    assert sales is table
    assert chosen.count() == 1


def by_narwhals(table):
    import narwhals

    frame = narwhals.from_native(table.lazy()).filter(narwhals.col("n") > 95).select("n")
    return frame.collect("pyarrow").to_native()


def by_ibis(table):
    import ibis

    found = ibis.polars.connect({"t": table.lazy()}).table("t")
    return found.filter(found.n > 95).select("n").to_pyarrow()


@pytest.mark.parametrize("read", [by_narwhals, by_ibis])
def test_libraries_over_polars_read_what_their_plan_needs(read, lazy_table, monkeypatch):
    asked = []
    scan = lazy_table.scan
    monkeypatch.setattr(lazy_table, "scan", lambda *given, **named: asked.append(given) or scan(*given, **named))
    assert read(lazy_table)["n"].to_pylist() == [96, 97, 98, 99]
    assert asked == [(), (["n"], '"n" > ?')]  # the first one has the columns


def test_libraries_take_tables_and_scans_as_arrow_streams(lazy_table):
    import ibis
    import narwhals

    scan = lazy_table.scan(columns=["n"], where="n > 95")
    assert narwhals.from_arrow(lazy_table, backend="polars").to_native().equals(lazy_table.to_polars(), null_equal=True)
    assert narwhals.from_arrow(scan, backend="pyarrow").to_native().equals(scan.to_arrow())
    assert ibis.memtable(scan).n.sum().to_pyarrow().as_py() == 96 + 97 + 98 + 99


class Traced:
    """OpenTelemetry's API as far as it is used: the names of spans with what is around them."""

    def __init__(self):
        self.spans, self.open = [], []

    def get_tracer(self, name, version):
        assert name == "skerry"
        assert version == skerry.__version__
        return self

    @contextlib.contextmanager
    def start_as_current_span(self, name, attributes):
        self.open.append(name)
        self.spans.append((list(self.open), attributes))
        yield self
        self.open.pop()

    def add_event(self, name, attributes):
        self.spans.append(([*self.open, name], attributes))


def test_work_is_traced_where_opentelemetry_is_used(table, monkeypatch):
    assert "opentelemetry" not in sys.modules
    traced = Traced()
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", traced)
    table.append(ROWS)
    names = [names for names, _ in traced.spans]
    assert names == [
        ["skerry.append"],
        ["skerry.append", "skerry.commit"],
        ["skerry.append", "skerry.commit", "skerry.publish"],
    ]
    assert traced.spans[1][1]["skerry.table"] == "shop.sales"
    assert traced.spans[2][1]["skerry.attempt"] == 1


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("write.target-file-size", "write.target-file-size-bytes"),
        ("write.parquet.compresion-codec", "write.parquet.compression-codec"),
        ("write.delet.mode", "write.delete.mode"),
        ("commit.retry.num-retry", "commit.retry.num-retries"),
        ("write.parquet.colour", None),
    ],
)
def test_a_misspelt_property_of_iceberg_is_told(catalog, name, hint):
    said = f"'{name}'; did you mean '{hint}'" if hint else f"'{name}'$"
    with pytest.warns(UserWarning, match=said):
        table = catalog.create_table("a.t", SCHEMA, properties={name: "1"})
    assert table.properties[name] == "1"
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # what is there already is not told again, and neither is what others obey
        table.set_properties({"write.spark.fanout.enabled": "true", "acme.write": "x", "write.acme.mode": "x"})
        table.set_properties({"write.parquet.bloom-filter-enabled.column.id": "true", "gc.enabled": "true"})


@pytest.mark.parametrize(
    ("name", "value", "hint"),
    [
        ("snapshot.num-retained.maximum", "5", "snapshot.num-retained.max"),
        ("merge-engin", "aggregation", "merge-engine"),
        ("deletion-vector.enabled", "true", "deletion-vectors.enabled"),
    ],
)
def test_a_misspelt_option_of_paimon_is_told(catalog, name, value, hint):
    with pytest.warns(UserWarning, match=f"'{name}'; did you mean '{hint}'"):
        table = catalog.create_table("a.t", SCHEMA, format="paimon", properties={name: value})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table.set_properties({"sink.parallelism": "2", "acme": "x", "fields.name.ignore": "x", "write-only": "true"})


def test_a_misspelt_storage_option_is_told(tmp_path):
    with pytest.warns(UserWarning, match=r"'s3\.end-point'; did you mean 's3\.endpoint'"):
        skerry.connect(tmp_path / "w", **{"s3.end-point": "http://x"})
    with pytest.raises(SchemaError, match=r"'s3\.anonymous' is 'maybe', expected true or false"):
        skerry.connect(tmp_path / "new", **{"s3.anonymous": "maybe"})
    with pytest.raises(SchemaError, match="expected seconds"):
        skerry.connect(tmp_path / "new", **{"s3.request-timeout": "soon"})
    assert not (tmp_path / "new").exists()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        skerry.connect(tmp_path / "w", **{"s3.endpoint": "http://x", "adls.sas-token.me": "x", "py-io-impl": "x"})


def test_a_property_of_ours_that_nothing_obeys_is_told(table, recwarn):
    table.set_properties({"skerry.statistics.enabled": "true", "comment": "free"})
    assert not recwarn.list
    with pytest.warns(UserWarning, match=r"'skerry\.statistics\.enable'; did you mean 'skerry\.statistics\.enabled'"):
        table.set_properties({"skerry.statistics.enable": "true"})
