"""Whatever the memory layout of the Arrow arrays that are written, the same values are read."""

from __future__ import annotations

import datetime as dt
import decimal
import uuid
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import skerry
from skerry import amudai

_UUID = pa.uuid()
_ROWS = 60
_NUMBERS = [None if i % 7 == 3 else i * 37 % 101 for i in range(_ROWS)]


def _of(kind: pa.DataType, make: Callable[[int], object]) -> pa.Array:
    return pa.array([None if number is None else make(number) for number in _NUMBERS], kind)


def _uuid(number: int) -> bytes:
    return uuid.UUID(int=number).bytes


def _columns() -> dict[str, pa.Array]:
    text = _of(pa.string(), "v{}".format)
    uuids = pa.ExtensionArray.from_storage(_UUID, _of(pa.binary(16), _uuid))
    nested = {
        "list<uuid>": pa.ListArray.from_arrays(pa.array(range(0, _ROWS + 1, 3), pa.int32()), uuids),
        "struct": pa.StructArray.from_arrays([text, uuids], ["t", "u"]),
        "fixed list<uuid>": pa.FixedSizeListArray.from_arrays(uuids, 2),
        "map<string, uuid>": pa.MapArray.from_arrays(
            pa.array(range(0, _ROWS + 1, 4), pa.int32()), text.fill_null("x"), uuids
        ),
        "dense union": pa.UnionArray.from_dense(
            pa.array(np.arange(_ROWS) % 2, pa.int8()),
            pa.array(np.arange(_ROWS), pa.int32()),
            [text, _of(pa.int64(), int)],
        ),
    }
    return {
        "int8": _of(pa.int8(), int),
        "uint32": _of(pa.uint32(), int),
        "int64": _of(pa.int64(), lambda i: (1 << 62) - i),
        "bool": _of(pa.bool_(), lambda i: i % 2 == 0),
        "float": _of(pa.float32(), lambda i: i / 8),
        "double": _of(pa.float64(), lambda i: i / 7),
        "short decimal": _of(pa.decimal64(9, 2), lambda i: decimal.Decimal(i) / 100),
        "decimal": _of(pa.decimal128(20, 2), lambda i: decimal.Decimal(i) / 100),
        "long decimal": _of(pa.decimal256(60, 30), lambda i: decimal.Decimal(i) ** 3),
        "date": _of(pa.date32(), lambda i: dt.date(2020, 1, 1) + dt.timedelta(i)),
        "timestamp": _of(pa.timestamp("us", "UTC"), lambda i: i * 10**9),
        "nanoseconds": _of(pa.timestamp("ns"), lambda i: i * 100),
        "duration": _of(pa.duration("ms"), int),
        "text": text,
        "large text": text.cast(pa.large_string()),
        "text view": text.cast(pa.string_view()),
        "binary": _of(pa.binary(), lambda i: bytes([i]) * (i % 20)),
        "fixed": _of(pa.binary(5), lambda i: bytes([i]) * 5),
        "uuid": uuids,
        "dictionary": text.dictionary_encode(),
        "run ends": pa.RunEndEncodedArray.from_arrays(
            pa.array([20, 40, _ROWS], pa.int32()), pa.array(["a", None, "c"])
        ),
        **nested,
    }


def _unaligned(array: pa.Array) -> pa.Array:
    """The array with all its buffers one byte off."""
    batch = pa.RecordBatch.from_arrays([array], ["x"])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    shifted = pa.py_buffer(b"\0" + sink.getvalue().to_pybytes()).slice(1)
    (column,) = pa.ipc.open_stream(shifted).read_all()["x"].chunks
    return column


def _chunked(array: pa.Array) -> pa.ChunkedArray:
    middle = len(array) // 2
    parts = [array.slice(0, 0), array.slice(0, 1), array.slice(1, middle - 1), array.slice(middle)]
    return pa.chunked_array(parts, array.type)


_LAYOUTS: dict[str, Callable[[pa.Array], pa.Array | pa.ChunkedArray]] = {
    "sliced": lambda array: array.slice(3, 9),
    "unaligned": _unaligned,
    "unaligned slice": lambda array: _unaligned(array).slice(1, 10),
    "chunked": _chunked,
    "empty": lambda array: array.slice(0, 0),
}


@pytest.mark.parametrize("layout", _LAYOUTS)
def test_layouts_of_arrow_arrays_are_read_back(layout: str, tmp_path: Path) -> None:
    for name, array in _columns().items():
        written = pa.table({name: _LAYOUTS[layout](array)})
        path = tmp_path / "data.amudai.shard"
        amudai.write_table(written, path, overwrite=True)
        found = amudai.read_table(path)
        assert found.schema == written.schema
        assert found[name].to_pylist() == written[name].to_pylist(), name


@pytest.mark.parametrize(
    "kind",
    [
        pa.list_(_UUID),
        pa.large_list(_UUID),
        pa.list_view(_UUID),
        pa.list_(_UUID, 2),
        pa.map_(pa.string(), _UUID),
        pa.struct([("u", _UUID)]),
        pa.list_(pa.struct([("u", _UUID)])),
        pa.list_(pa.list_(_UUID)),
        pa.list_(pa.list_(_UUID, 2)),
        pa.list_(pa.map_(pa.string(), pa.list_(_UUID))),
        pa.struct([("l", pa.list_(_UUID)), ("m", pa.map_(_UUID, _UUID))]),
        pa.list_(pa.dictionary(pa.int8(), pa.string())),
        pa.list_(pa.string_view()),
    ],
    ids=str,
)
def test_stripes_of_nothing_but_nulls_are_read_back(kind: pa.DataType, tmp_path: Path) -> None:
    path = tmp_path / "data.amudai.shard"
    amudai.write_table(pa.table({"x": pa.nulls(3, kind)}), path)
    found = amudai.read_table(path)["x"]
    assert (found.type, found.null_count) == (kind, 3)


def test_tables_take_unaligned_arrays(tmp_path: Path) -> None:
    columns = {name: _columns()[name] for name in ("double", "decimal", "text", "int64")}
    rows = pa.table({name: _unaligned(array) for name, array in columns.items()})
    for format_ in ("iceberg", "paimon"):
        table = skerry.connect(tmp_path / format_).create_table(
            "a.b", rows.schema, file_format="amudai", format=format_
        )
        table.append(rows)
        assert table.scan().to_arrow().to_pylist() == rows.to_pylist()


@pytest.mark.parametrize("padding", range(0, 8, 3))
def test_dictionaries_in_the_tail_of_a_file_are_read(padding: int, tmp_path: Path) -> None:
    """The end of a file is read before anything is known of it, from a position that is no multiple of anything."""
    random = np.random.default_rng(0)
    few = random.integers(0, 10, 12_000)
    columns = {
        "numbers": pa.array(random.integers(-(2**62), 2**62, 12_000)),  # what makes the file larger than its tail
        "decimal": pa.array([decimal.Decimal(int(i)) / 100 for i in few], pa.decimal128(15, 2)),
        "wide": pa.array([decimal.Decimal(int(i)) for i in few], pa.decimal256(60, 30)),
        "text": pa.array([f"v{i}" for i in few]),
        "fixed": pa.array([bytes([i]) * 6 for i in few.tolist()], pa.binary(6)),
        "double": pa.array(few / 7),
        "float": pa.array((few / 7).astype(np.float32)),
        "moment": pa.array(few * 10**9, pa.timestamp("us")),
        "flag": pa.array(few > 3),
        "runs": pa.array(np.sort(few).astype(np.int16)),
        "list": pa.array([[int(i)] * (int(i) % 3) for i in few], pa.list_(pa.int32())),
    }
    rows, path = pa.table(columns), tmp_path / "data.amudai.shard"
    amudai.write_table(rows, path, properties={"pad": "x" * padding})
    assert amudai.read_table(path).equals(rows)
