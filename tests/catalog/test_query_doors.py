"""What a query may not do: read files, ask the network, see the process, change the engine. Closed twice."""

import pyarrow as pa
import pytest

import skerry
from skerry.errors import NotFoundError, SkerryError, UnsupportedError
from skerry.planner import query as planner
from skerry.planner import tables


@pytest.fixture(scope="module")
def catalog(tmp_path_factory):
    folder = tmp_path_factory.mktemp("doors")
    (folder / "secret.txt").write_text("hidden")
    made = skerry.connect(folder / "warehouse")
    made.create_table("n.t", pa.schema([("id", pa.int64())])).append(pa.table({"id": [1]}))
    made.folder = folder
    return made


DOORS = [
    "SELECT r.content FROM n.t, LATERAL main.read_text('{secret}') AS r",
    "SELECT r.content FROM n.t, LATERAL read_text('{secret}') AS r",
    "SELECT r.content FROM n.t, main.read_text('{secret}') AS r",
    "SELECT r.content FROM n.t JOIN LATERAL main.read_text('{secret}') r ON true",
    "SELECT r.file FROM n.t CROSS JOIN LATERAL main.glob('{secret}*') r",
    "SELECT a FROM n.t CROSS JOIN LATERAL main.read_csv('{secret}', header=false) r(a)",
    "SELECT (SELECT max(content) FROM n.t u, LATERAL main.read_text('{secret}') r) FROM n.t",
    "SELECT * FROM read_blob('{secret}')",
    "SELECT * FROM (SELECT * FROM read_csv('{secret}'))",
    "WITH x AS (SELECT * FROM read_text('{secret}')) SELECT * FROM x, n.t",
    "SELECT * FROM n.t UNION ALL SELECT content FROM read_text('{secret}')",
    "SELECT * FROM n.t WHERE id IN (SELECT size FROM read_text('{secret}'))",
    "SELECT * FROM query('SELECT * FROM read_text(''{secret}'')')",
    "SELECT * FROM sniff_csv('{secret}')",
    "SELECT * FROM duckdb_settings()",
    "SELECT * FROM n.t LATERAL VIEW explode(a) x",
    "SELECT current_setting('temp_directory') FROM n.t",
    "SELECT getenv('HOME') FROM n.t",
    "COPY n.t TO '{secret}'",
    "ATTACH '{secret}'",
    "PRAGMA database_list",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SET enable_external_access = true",
    "CALL pragma_version()",
    "EXPORT DATABASE '{secret}'",
    "CREATE TABLE x AS SELECT 1",
    "SELECT * FROM (DESCRIBE n.t)",
]


@pytest.mark.parametrize("text", DOORS)
def test_only_tables_subqueries_and_lists_are_read(catalog, text):
    with pytest.raises(SkerryError) as caught:
        catalog.sql(text.format(secret=catalog.folder / "secret.txt"))
    assert not isinstance(caught.value, NotFoundError)
    assert "DuckDB refused" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM '{secret}'",
        'SELECT * FROM "{secret}"',
        'SELECT * FROM (WITH "{secret}" AS (SELECT 1) SELECT * FROM n.t) q, "{secret}"',
    ],
)
def test_a_file_is_not_a_table(catalog, text):
    with pytest.raises(SkerryError, match=r"no table|table name must have the form namespace\.table"):
        catalog.sql(text.format(secret=catalog.folder / "secret.txt"))


@pytest.mark.parametrize(
    "text",
    [
        "SELECT content FROM read_text('{secret}')",
        "SELECT * FROM read_csv('{secret}')",
        "SELECT * FROM '{secret}'",
        "SELECT * FROM glob('{secret}*')",
        "COPY (SELECT 1) TO '{secret}.csv'",
        "ATTACH '{secret}.db'",
        "SET enable_external_access = true",
        "SET autoinstall_known_extensions = true",
        "INSTALL httpfs",
        "SELECT excel_text(1, '0')",
        "SELECT host('::1'::INET)",
        "SELECT * FROM here",
    ],
)
def test_the_engine_is_closed_as_well(catalog, text, monkeypatch):
    here = pa.table({"a": ["hidden"]})
    assert here.num_rows == 1
    monkeypatch.setattr(planner.Query, "sql", lambda query: text.format(secret=catalog.folder / "secret.txt"))
    with pytest.raises(SkerryError, match="DuckDB refused the query") as caught:
        catalog.sql("SELECT id FROM n.t")
    assert "hidden" not in str(caught.value)
    assert "download" not in str(caught.value).lower()
    assert sorted(path.name for path in catalog.folder.iterdir()) == ["secret.txt", "warehouse"]


def test_lists_laterals_and_names_like_ours_still_work(catalog):
    assert catalog.sql("SELECT u FROM n.t, LATERAL (SELECT id + 1 AS u) x").to_pylist() == [{"u": 2}]
    assert catalog.sql("SELECT v.a FROM n.t, (VALUES (7)) v(a)").to_pylist() == [{"a": 7}]
    assert catalog.sql("SELECT unnest([1, 2]) AS a FROM n.t").to_pylist() == [{"a": 1}, {"a": 2}]
    named = "WITH skerry_0 AS (SELECT 5 AS id) SELECT s.id AS a, t.id AS b FROM skerry_0 s, n.t t"
    assert catalog.sql(named).to_pylist() == [{"a": 5, "b": 1}]


def test_a_query_that_sqlglot_does_not_foresee_ends_in_our_error(catalog, monkeypatch):
    monkeypatch.setattr(tables, "check_inputs", lambda tree: {}["unforeseen"])
    with pytest.raises(UnsupportedError, match="the query cannot be planned: KeyError"):
        catalog.sql("SELECT 1 FROM n.t")
