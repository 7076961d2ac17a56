"""`skerry ingest --create` that is interrupted: a table without rows goes again, one with rows stays."""

import pyarrow as pa
import pytest

import skerry
import skerry.spark
from skerry.cli.writing.ingest import ingest

SCHEMA = pa.schema([("id", pa.int64())])


@pytest.fixture
def without_spark(monkeypatch, tmp_path):
    (tmp_path / "rows.csv").write_text("id\n1\n")
    monkeypatch.setattr(skerry.spark, "session", lambda **keywords: None)
    monkeypatch.setattr(skerry.spark, "infer_schema", lambda *arguments, **keywords: SCHEMA)
    return str(tmp_path / "rows.csv")


@pytest.mark.parametrize("lands", [False, True])
@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError], ids=lambda error: error.__name__)
def test_a_new_table_goes_again_unless_rows_have_landed(without_spark, tmp_path, monkeypatch, error, lands):
    def land(spark, source, table, **keywords):
        if lands:
            table.append(pa.table({"id": [1]}))
        raise error

    monkeypatch.setattr(skerry.spark, "ingest", land)
    warehouse = tmp_path / "warehouse"
    with pytest.raises(BaseException) as raised:  # the command turns an interrupt into its exit
        ingest([without_spark, "a.t", "--create", "--warehouse", str(warehouse)])
    assert isinstance(raised.value, (KeyboardInterrupt, SystemExit, OSError))
    assert skerry.connect(warehouse).table_exists("a.t") == lands
    assert lands or not list(warehouse.rglob("*.metadata.json"))
