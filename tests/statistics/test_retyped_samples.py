"""Values that were hashed before their column's type changed are not counted a second time."""

import pyarrow as pa
import pytest

import skerry
from skerry.iceberg.handle import IcebergHandle
from skerry.paimon.table import PaimonTable
from skerry.storage import Storage

COUNT = 600


def numbers(start, stop, type_):
    return pa.table({"k": pa.array(range(start, stop), type_), "v": pa.array(range(start, stop), pa.int64())})


@pytest.fixture(params=["iceberg", "paimon"])
def open_table(request, tmp_path):
    """Opens a table with numbers of 32 bits, as another writer would."""
    schema = numbers(0, 1, pa.int32()).schema
    if request.param == "iceberg":
        properties = {"write.delete.mode": "merge-on-read"}
        skerry.connect(tmp_path / "w").create_table("d.t", schema, format_version=3, properties=properties)
    else:
        PaimonTable.create(Storage(), str(tmp_path / "t"), schema)

    def open_it():
        if request.param == "iceberg":
            return skerry.connect(tmp_path / "w").load_table("d.t")
        return PaimonTable.open(Storage(), str(tmp_path / "t"))

    open_it().append(numbers(0, COUNT, pa.int32()))
    return open_it


def widen(open_table, *, sketch):
    """Another writer has columns of 64 bits from now on."""
    with open_table().update_schema() as update:
        update.update_column("k", pa.int64())
    if sketch:
        open_table().analyze(full=True)


def assert_honest(table, fresh=("v",)):
    """What is called fresh is right, which it is of all columns after an analysis."""
    for analyzed in (False, True):
        content = table.refresh().scan().to_arrow()
        found = table.statistics()
        for name, column in found.items():
            assert column.ndv == len(content[name].unique()) or not column.freshness.is_fresh, (name, column)
        assert all(found[name].freshness.is_fresh for name in (("k", "v") if analyzed else fresh))
        table.analyze()


def test_rows_that_were_written_before(open_table):
    def late():
        yield from numbers(0, COUNT, pa.int32()).to_batches()
        widen(open_table, sketch=True)

    schema = numbers(0, 1, pa.int32()).schema
    open_table().append(pa.RecordBatchReader.from_batches(schema, late()))
    assert_honest(open_table())


def test_an_analysis_that_began_before(open_table):
    done = []

    def progress(_):
        if not done:
            done.append(True)
            widen(open_table, sketch=False)

    open_table().analyze(full=True, progress=progress)
    assert done
    open_table().append(numbers(0, COUNT, pa.int64()))
    assert_honest(open_table())


@pytest.mark.parametrize("open_table", ["iceberg"], indirect=True)
def test_a_deletion_that_began_before(open_table, monkeypatch):
    table, real, done = open_table(), IcebergHandle.commit, []

    def commit(self, operation):
        if not done:
            done.append(True)
            widen(open_table, sketch=True)
        return real(self, operation)

    monkeypatch.setattr(IcebergHandle, "commit", commit)
    table.delete("k < 3")
    assert done
    assert_honest(open_table(), fresh=())


@pytest.mark.parametrize("open_table", ["iceberg"], indirect=True)
def test_a_transaction_that_changes_the_type_itself(open_table, tmp_path):
    with skerry.connect(tmp_path / "w").transaction() as transaction:
        staged = transaction.load_table("d.t")
        with staged.update_schema() as update:
            update.update_column("k", pa.int64())
            update.add_column("new", pa.int64())
        staged.append(numbers(5, 9, pa.int64()).append_column("new", pa.array([1, 2, 3, 3])))
    found = open_table().statistics()
    assert found["new"].freshness.is_fresh
    assert found["new"].ndv == 3
