"""Writing shards: what is written is read as it was, whatever the types, profile, stripes and files."""

from __future__ import annotations

import decimal
import inspect
import math
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from skerry.amudai.encodings.codes import Encoding, Profile
from skerry.amudai.encodings.plans import Plan
from skerry.amudai.reading.shard_file import ShardFile, read_table
from skerry.amudai.shard.schema import InternalKind
from skerry.amudai.values.types import ALIASES_KEY, EXTENSION_KEY, INTERNAL_KIND_KEY
from skerry.amudai.writing.field_encoding import FieldOptions
from skerry.amudai.writing.shard_writer import ShardWriter, write_table
from skerry.errors import AlreadyExistsError, NotFoundError, SchemaError, UnsupportedError
from skerry.storage import Storage

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(["", "ß", "x" * 300])


def integers(bits: int, *, signed: bool) -> st.SearchStrategy[int]:
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    return st.integers(low, high) | st.integers(max(low, -3), 3)


def singles() -> st.SearchStrategy[float]:
    return st.integers(0, (1 << 32) - 1).map(lambda bits: struct.unpack("<f", struct.pack("<I", bits))[0])


def decimals(digits: int, scale: int) -> st.SearchStrategy[decimal.Decimal]:
    return st.integers(-(10**digits) + 1, 10**digits - 1).map(
        lambda number: decimal.Decimal(number).scaleb(-scale, CTX)
    )


CTX = decimal.Context(prec=80)
LEAVES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.bool_(): st.booleans(),
    pa.int8(): integers(8, signed=True),
    pa.uint16(): integers(16, signed=False),
    pa.int32(): integers(32, signed=True),
    pa.int64(): integers(64, signed=True),
    pa.uint64(): integers(64, signed=False),
    pa.float32(): singles() | st.sampled_from([0.0, -0.0, math.inf, 1.5]),
    pa.float64(): st.floats() | st.sampled_from([0.0, -0.0, -math.inf, 1.25]),
    pa.string(): TEXT,
    pa.large_string(): TEXT,
    pa.string_view(): TEXT,
    pa.binary(): st.binary(max_size=9),
    pa.large_binary(): st.binary(max_size=300),
    pa.binary(3): st.binary(min_size=3, max_size=3),
    pa.decimal64(12, 3): decimals(12, 3),
    pa.decimal128(34, 5): decimals(34, 5),
    pa.decimal256(60, 4): decimals(33, 4),
    pa.date32(): st.dates(),
    pa.date64(): st.dates(),
    pa.timestamp("s"): st.integers(-(10**10), 10**10),
    pa.timestamp("us", "Europe/Zurich"): st.integers(-(10**15), 10**15),
    pa.timestamp("ns"): st.integers(-(10**15), 10**15).map(lambda ticks: ticks * 100),
    pa.duration("ms"): st.integers(-(10**12), 10**12),
    pa.dictionary(pa.int16(), pa.string()): TEXT,
    pa.uuid(): st.uuids().map(lambda value: value.bytes),
}


@st.composite
def types(draw: st.DrawFn, depth: int = 2) -> pa.DataType:
    leaf = draw(st.sampled_from(sorted(LEAVES, key=str)))
    kind = draw(st.integers(0, 9)) if depth else 9
    if kind > 5 and depth == 2:
        return leaf
    if leaf == pa.uuid():  # PyArrow makes no array of it within another
        leaf = pa.binary(3)
    if kind > 5:
        return leaf
    inner = draw(types(depth - 1))
    if kind == 0:
        return pa.list_(inner)
    if kind == 1:
        return pa.large_list(inner)
    if kind == 2:
        return pa.list_(inner, draw(st.integers(1, 3)))
    if kind == 3:
        return pa.struct([("p", inner), ("q", leaf)])
    return pa.map_(pa.string(), inner) if kind == 4 else pa.list_view(inner)


def values_of(kind: pa.DataType) -> st.SearchStrategy[Any]:
    nullable = st.none() | _values(kind)
    return _values(kind) if kind == pa.bool_() else nullable


def _values(kind: pa.DataType) -> st.SearchStrategy[Any]:
    if pa.types.is_fixed_size_list(kind):
        return st.lists(values_of(kind.value_type), min_size=kind.list_size, max_size=kind.list_size)
    if pa.types.is_map(kind):
        return st.dictionaries(TEXT, values_of(kind.item_type), max_size=3).map(lambda pairs: list(pairs.items()))
    if pa.types.is_struct(kind):
        return st.fixed_dictionaries({field.name: values_of(field.type) for field in kind})
    if pa.types.is_nested(kind):
        return st.lists(values_of(kind.value_type), max_size=4)
    return LEAVES[kind]


@st.composite
def columns(draw: st.DrawFn, rows: int) -> pa.Array:
    kind = draw(types())
    some = draw(st.lists(values_of(kind), min_size=1, max_size=6))
    repeated = [some[i % len(some)] for i in range(rows + 3)]
    array = pa.array(repeated, kind)
    start = draw(st.integers(0, 3))
    return array.slice(start, rows)  # so that arrays with an offset are written, too


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    rows = draw(st.integers(0, 40))
    return pa.table({f"c{i}": draw(columns(rows)) for i in range(draw(st.integers(1, 3)))})


def bits(value: Any) -> Any:
    """Python values with floats as their bits."""
    if isinstance(value, float):
        return struct.pack("<d", value)
    if isinstance(value, dict):
        return {key: bits(item) for key, item in value.items()}
    return [bits(item) for item in value] if isinstance(value, list | tuple) else value


def content(table: pa.Table) -> dict[str, list[Any]]:
    found = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        if pa.types.is_floating(column.type):
            whole = column.combine_chunks()
            found[name] = whole.view(f"uint{column.type.bit_width}").to_pylist()
        else:
            found[name] = bits(column.to_pylist())
    return found


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(tables(), st.sampled_from(list(Profile)), st.integers(1, 50), st.none() | st.integers(1, 20), st.booleans())
def test_any_table_comes_back(
    tmp_path: Path, table: pa.Table, profile: Profile, rows: int, block_rows: int | None, two_level: bool
) -> None:
    path = tmp_path / "data.amudai.shard"
    written = write_table(
        table,
        path,
        profile=profile,
        field_options={name: FieldOptions(profile, block_values=block_rows) for name in table.column_names},
        stripe_rows=rows,
        two_level=two_level,
        threads=1,
        overwrite=True,
    )
    read = read_table(path)
    read.validate(full=True)
    assert read.schema.equals(table.schema, check_metadata=True)
    assert content(read) == content(table)
    assert written.record_count == table.num_rows
    shard = ShardFile(path)
    assert shard.num_stripes == -(-table.num_rows // rows)
    positions = list(range(table.num_rows))[::3]
    expected = {name: [values[i] for i in positions] for name, values in content(table).items()}
    assert content(shard.take(positions)) == expected


# Arrays that PyArrow does not make of Python values, and the rest of what a writer does ------------------------------


def round_trip(array: pa.Array, path: Path, **options: Any) -> pa.Table:
    table = pa.table({"x": array})
    write_table(table, path, overwrite=True, **options)
    read = read_table(path)
    assert read.schema.equals(table.schema)
    return read


@pytest.mark.parametrize("mode", ["sparse", "dense"])
def test_unions_come_back(tmp_path: Path, mode: str) -> None:
    codes = pa.array([5, 7, 5, 7, 5], pa.int8())
    numbers, words = pa.array([1, 2, None, 4, 5]), pa.array(["a", "b", "c", None, "e"])
    if mode == "sparse":
        array = pa.UnionArray.from_sparse(codes, [numbers, words], ["n", "w"], [5, 7])
    else:
        places = pa.array([0, 1, 2, 3, 4], pa.int32())
        array = pa.UnionArray.from_dense(codes, places, [numbers, words], ["n", "w"], [5, 7])
    for part in (array, array.slice(1, 3), array.slice(0, 0)):
        assert round_trip(part, tmp_path / "u.shard")["x"].to_pylist() == part.to_pylist()


def test_run_ends_json_and_views_behind_nulls_come_back(tmp_path: Path) -> None:
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 5], pa.int32()), pa.array(["a", None]))
    assert round_trip(runs, tmp_path / "r.shard")["x"].to_pylist() == runs.to_pylist()
    json = pa.ExtensionArray.from_storage(pa.json_(), pa.array(['{"a":1}', None]))
    assert round_trip(json, tmp_path / "j.shard")["x"].to_pylist() == json.to_pylist()
    views = pa.array([["a", None], None, ["c", "d"]], pa.list_(pa.string_view(), 2))
    assert round_trip(views, tmp_path / "v.shard")["x"].to_pylist() == views.to_pylist()


def test_what_lies_behind_nulls_is_not_stored(tmp_path: Path) -> None:
    secret = pa.StructArray.from_arrays([pa.array(["open", "secret"])], ["s"], mask=pa.array([False, True]))
    write_table(pa.table({"x": secret}), tmp_path / "s.shard", profile="plain")
    assert b"secret" not in (tmp_path / "s.shard").read_bytes()
    assert read_table(tmp_path / "s.shard")["x"].to_pylist() == [{"s": "open"}, None]


def test_constants_keep_their_bits(tmp_path: Path) -> None:
    payload = np.array([0x7FF8000000000001] * 3, np.uint64).view(np.float64)
    for values in (payload, np.array([-0.0] * 3), np.array([0.0, -0.0, 0.0]), np.array([1.0, np.nan, 1.0])):
        read = round_trip(pa.array(values), tmp_path / "f.shard")["x"].combine_chunks()
        assert read.view(pa.uint64()).to_pylist() == values.view(np.uint64).tolist()


@pytest.mark.parametrize(
    ("field", "error"),
    [
        (pa.field("t", pa.time64("us")), "column 't': a shard cannot hold time64"),
        (pa.field("s", pa.struct([("m", pa.month_day_nano_interval())])), "column 's.m': a shard cannot hold month"),
        (pa.field("d", pa.decimal128(5, -2)), "column 'd': .* has a negative scale"),
        (pa.field("h", pa.float16()), "column 'h': a shard cannot hold halffloat"),
    ],
)
def test_types_that_shards_cannot_hold_are_refused_before_a_byte_is_written(
    tmp_path: Path, field: pa.Field, error: str
) -> None:
    with pytest.raises(UnsupportedError, match=error):
        ShardWriter(tmp_path / "x.shard", pa.schema([field]))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("array", "error"),
    [
        (pa.array([150], pa.timestamp("ns")), "150, expected a multiple of 100 ns"),
        (pa.array([decimal.Decimal(10**36 + 1)], pa.decimal128(38)), "expected at most 34 digits"),
    ],
)
@pytest.mark.parametrize("two_level", [False, True])
def test_values_that_do_not_fit_leave_no_file(tmp_path: Path, array: pa.Array, error: str, two_level: bool) -> None:
    table = pa.table({"x": pa.concat_arrays([pa.nulls(1, array.type), array])})
    with pytest.raises(SchemaError, match=error):
        write_table(table, tmp_path / "x.shard", stripe_rows=1, two_level=two_level)
    assert list(tmp_path.iterdir()) == []


def test_a_writer_that_dies_leaves_nothing(tmp_path: Path) -> None:
    table = pa.table({"x": range(10)})

    def die(two_level: bool) -> None:
        with ShardWriter(tmp_path / "x.shard", table.schema, stripe_rows=3, two_level=two_level) as writer:
            kept.append(writer)
            writer.write(table)
            raise RuntimeError

    kept: list[ShardWriter] = []
    for two_level in (False, True):
        with pytest.raises(RuntimeError):
            die(two_level)
        with pytest.raises(SchemaError, match="given up"):
            kept[-1].close()
        with pytest.raises(SchemaError, match="closed"):
            kept[-1].write(table)
    assert list(tmp_path.iterdir()) == []


def test_files_are_not_replaced_unasked(tmp_path: Path) -> None:
    write_table(pa.table({"x": [1]}), tmp_path / "x.shard")
    with pytest.raises(AlreadyExistsError):
        write_table(pa.table({"x": [2]}), tmp_path / "x.shard")
    write_table(pa.table({"x": [2]}), tmp_path / "x.shard", overwrite=True)
    assert read_table(tmp_path / "x.shard")["x"].to_pylist() == [2]


def test_tables_and_batches_are_written_with_the_same_options() -> None:
    of_writer, of_table = (inspect.signature(each).parameters for each in (ShardWriter, write_table))
    options = {name: one for name, one in of_writer.items() if one.kind is one.KEYWORD_ONLY}
    assert options == {name: one for name, one in of_table.items() if one.kind is one.KEYWORD_ONLY}
    documented = [
        str(inspect.getdoc(each)).partition("    profile: ")[2].partition("\n\n")[0]
        for each in (ShardWriter, write_table)
    ]
    assert documented[0] == documented[1]
    assert all(f"    {name}: " in f"    profile: {documented[0]}" for name in options)


def test_other_columns_profiles_and_options_are_refused(tmp_path: Path) -> None:
    schema = pa.schema([("x", pa.int64())])
    for options, error in (
        ({"profile": "tiny"}, "no profile 'tiny', expected one of plain, fast"),
        ({"stripe_rows": 0}, "stripe_rows must be a whole number above 0, found 0"),
        ({"stripe_rows": "10"}, "stripe_rows must be a whole number above 0, found '10'"),
        ({"threads": -1}, "threads must be a whole number above 0, found -1"),
        ({"stripe_bytes": 1 << 31}, "stripe_bytes must be at most 1073741824"),
        ({"field_options": {"y": FieldOptions()}}, "columns that do not exist: y"),
        ({"field_properties": {"y": {}}}, "columns that do not exist: y"),
        ({"properties": {"p": object()}}, "propert"),
    ):
        with pytest.raises(SchemaError, match=error):
            ShardWriter(tmp_path / "x.shard", schema, **options)
    with (
        pytest.raises(SchemaError, match="has columns y: int64, expected x: int64"),
        ShardWriter(tmp_path / "x.shard", schema) as writer,
    ):
        writer.write(pa.table({"y": [1]}))
    assert list(tmp_path.iterdir()) == []


def test_stripes_are_cut_by_rows_and_by_bytes(tmp_path: Path) -> None:
    table = pa.table({"x": range(1000)})
    assert len(write_table(table, tmp_path / "a.shard", stripe_rows=300).stripe_offsets) == 4
    assert len(write_table(table, tmp_path / "b.shard", stripe_bytes=4000).stripe_offsets) == 2
    with ShardWriter(tmp_path / "c.shard", table.schema) as writer:
        for start in range(0, 1000, 10):
            writer.write_batch(table.slice(start, 10).to_batches()[0])
            if start == 500:
                writer.end_stripe()
        written = writer.close()
    assert written.stripe_offsets[0] == 64
    assert [stripe.record_count for stripe in ShardFile(tmp_path / "c.shard").metadata.stripes] == [510, 490]
    assert all(offset % 64 == 0 for offset in written.stripe_offsets)


def test_two_level_shards_keep_buffers_beside_the_root(tmp_path: Path) -> None:
    table = pa.table({"x": range(3000)})
    written = write_table(table, tmp_path / "x.amudai.shard", stripe_rows=1000, two_level=True)
    assert written.stripe_offsets == ()
    assert sorted(map(str, tmp_path.glob("*.amudai.stripe"))) == sorted(written.stripe_files)
    shard = ShardFile(tmp_path / "x.amudai.shard")
    assert sorted(shard.metadata.urls) == sorted(Path(file).name for file in written.stripe_files)
    moved = tmp_path / "moved"
    moved.mkdir()
    for file in list(tmp_path.glob("*.amudai.*")):
        file.rename(moved / file.name)
    assert read_table(moved / "x.amudai.shard").equals(table)


def test_properties_aliases_and_extensions_come_back(tmp_path: Path) -> None:
    schema = pa.schema(
        [
            pa.field("x", pa.int64(), metadata={ALIASES_KEY: b'["old_x"]', b"k": b"v"}),
            pa.field("span", pa.int64(), metadata={EXTENSION_KEY: b"KustoTimeSpan"}),
        ],
        metadata={b"table": b"t"},
    )
    with ShardWriter(
        tmp_path / "x.shard",
        schema,
        properties={"s": "text", "n": [1, -1, 1 << 63], "u": None},
        standard_properties={"tag": b"\0\xff"},
        field_properties={"x": {"unit": "m"}},
        created_ticks=638_000_000_000_000_000,
    ) as writer:
        writer.set_stripe_properties({"stripe": 1}, {"std": True})
        writer.write(pa.table([pa.array([1]), pa.array([2])], schema=schema))
        writer.end_stripe()
        writer.write(pa.table([pa.array([3]), pa.array([4])], schema=schema))
    shard = ShardFile(tmp_path / "x.shard")
    assert shard.properties.get("s") == "text"
    assert shard.properties.get("n") == [1, -1, 1 << 63]
    assert shard.properties.get("tag") == b"\0\xff"
    assert shard.properties.creation_min == shard.properties.creation_max
    assert shard.properties.creation_min is not None
    assert shard.properties.creation_min.ticks == 638_000_000_000_000_000
    assert shard.metadata.stripe_properties(0).get("stripe") == 1
    assert shard.metadata.stripe_properties(0).get("std") is True
    assert shard.metadata.stripe_properties(1).get("stripe") is None
    node = shard.shard_schema.field("x").data_type
    (described,) = shard.metadata.descriptors([node])
    assert described is not None
    assert described.custom_properties[0].name == "unit"
    assert shard.schema.equals(schema, check_metadata=True)
    assert shard.read(columns=["old_x"]).to_pydict() == {"old_x": [1, 3]}
    write_table(shard.read(), tmp_path / "y.shard", with_arrow_schema=False)
    assert ShardFile(tmp_path / "y.shard").schema.field("span").type == pa.duration("ns")


def test_deleted_rows_are_counted_and_filtered(tmp_path: Path) -> None:
    schema = pa.schema(
        [
            ("x", pa.int64()),
            pa.field("gone", pa.bool_(), metadata={INTERNAL_KIND_KEY: InternalKind.DELETED_RECORD.encode()}),
        ]
    )
    table = pa.table([pa.array(range(10)), pa.array([i % 3 == 0 for i in range(10)])], schema=schema)
    write_table(table, tmp_path / "x.shard", stripe_rows=4)
    shard = ShardFile(tmp_path / "x.shard")
    assert shard.metadata.directory.deleted_record_count == 4
    assert shard.num_rows == 6
    assert shard.read().to_pydict() == {"x": [1, 2, 4, 5, 7, 8]}
    assert shard.read(internal_fields=True).num_rows == 10
    assert shard.read(filters=[("x", ">", 4)]).to_pydict() == {"x": [5, 7, 8]}
    with pytest.raises(NotFoundError, match="'gone' is not a column of the table but an internal field"):
        shard.read(columns=["gone"])


def test_a_projected_or_filtered_read_touches_what_it_needs(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    table = pa.table({"a": np.arange(200_000), "b": random.integers(0, 1 << 60, 200_000), "c": ["same"] * 200_000})
    written = write_table(table, tmp_path / "x.shard", stripe_rows=100_000)
    for options, share in (
        ({"columns": ["c"]}, 0.1),
        ({"columns": ["a"]}, 0.6),
        ({"columns": ["b"], "filters": [("a", "=", 150_000)]}, 0.15),
        ({"columns": ["c"], "filters": [[("a", "=", 7)], [("b", "<", 0)]]}, 0.2),
        ({"columns": ["b"], "filters": [("a", "<", -1)]}, 0.1),
    ):
        storage = Storage()
        shard = ShardFile(tmp_path / "x.shard", storage=storage)
        read = shard.read(use_threads=False, **options)
        assert storage.metrics.bytes_read < share * written.size_bytes, options
        assert read.num_rows == {0.15: 1}.get(share, read.num_rows)


def test_streams_are_written_batch_by_batch(tmp_path: Path) -> None:
    table = pa.table({"x": range(100)})
    for rows in (table.to_reader(7), table.to_batches()[0], polars.from_arrow(table)):
        write_table(rows, tmp_path / "x.shard", stripe_rows=30, overwrite=True)
        assert read_table(tmp_path / "x.shard").equals(table)
    with pytest.raises(SchemaError, match="list is not Arrow data"):
        write_table([1, 2], tmp_path / "y.shard")


STREAM = """
import resource, sys
import numpy as np, pyarrow as pa
from skerry.amudai import ShardFile, ShardWriter
schema = pa.schema([("a", pa.int64()), ("b", pa.string())])
def batch(i):
    rng = np.random.default_rng(i)
    text = np.frombuffer(rng.bytes(24 * 20_000), "u1") % 26 + 97
    offsets = np.arange(0, 480_001, 24, dtype="i4")
    strings = pa.Array.from_buffers(pa.string(), 20_000, [None, pa.py_buffer(offsets), pa.py_buffer(text)])
    return pa.record_batch([pa.array(rng.integers(0, 1 << 40, 20_000)), strings], schema=schema)
def write(name, batches):
    with ShardWriter(sys.argv[1] + name, schema, stripe_bytes=4 << 20, profile="fast") as writer:
        for i in range(batches):
            writer.write(batch(i))
    return sum(b.num_rows for b in ShardFile(sys.argv[1] + name).iter_batches())
write("small", 20)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
assert write("large", 300) == 6_000_000
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_memory_of_a_stream_is_bounded_by_a_stripe(tmp_path: Path) -> None:
    ran = subprocess.run([sys.executable, "-c", STREAM, f"{tmp_path}/"], capture_output=True, text=True, check=True)
    assert int(ran.stdout) < 60_000, "kB more than for a fifteenth of the rows, which are 216 MB"


def test_columns_are_encoded_side_by_side_alike(tmp_path: Path) -> None:
    random = np.random.default_rng(2)
    table = pa.table({f"c{i}": random.integers(0, 1 << i, 5000) for i in range(1, 20)})
    files = []
    for threads in (1, 4):
        write_table(table, tmp_path / f"{threads}.shard", threads=threads, stripe_rows=2000, created_ticks=1)
        files.append((tmp_path / f"{threads}.shard").read_bytes())
    assert files[0] == files[1]


def buffers(path: Path, column: str) -> tuple[dict[int, int], int | None]:
    """Blocks of each buffer of a column by kind, and the size of its dictionary, in the first stripe."""
    (reader, *_) = ShardFile(path).metadata.stripe_readers()
    node = reader.schema.field(column).data_type
    reader.load_descriptors([node])
    message = reader.fields.descriptor(node)
    assert message is not None
    found = {buffer.kind: buffer.block_count for buffer in message.encodings[0].native.buffers}
    return found, message.field.dictionary_size if message.field.HasField("dictionary_size") else None


DATA, DICTIONARY, RANGES = 0, 3, 5


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["aa", "bb", None], pa.string()),
        ([b"abc", None, b"abd"], pa.binary(3)),
        ([decimal.Decimal("1.50"), None, decimal.Decimal("-2.25")], pa.decimal128(9, 2)),
        ([decimal.Decimal(10**30), None, decimal.Decimal(-(10**30))], pa.decimal128(38, 0)),
        ([decimal.Decimal("1.50"), None, decimal.Decimal("-2.25")], pa.decimal256(50, 2)),
    ],
)
def test_values_that_repeat_get_a_dictionary(tmp_path: Path, values: list[Any], kind: pa.DataType) -> None:
    table = pa.table({"x": pa.array(values * 4000, kind)})
    write_table(table, tmp_path / "x.shard")
    kinds, size = buffers(tmp_path / "x.shard", "x")
    assert (set(kinds) - {RANGES}, size) == ({DATA, DICTIONARY}, 3)
    assert (RANGES in kinds) == pa.types.is_decimal(kind)
    assert read_table(tmp_path / "x.shard").equals(table)
    for choice, expected in ((False, None), (True, 3)):
        options = FieldOptions(with_dictionary=choice)
        write_table(table, tmp_path / "y.shard", field_options={"x": options}, overwrite=True)
        assert buffers(tmp_path / "y.shard", "x")[1] == expected
        assert read_table(tmp_path / "y.shard").equals(table)


def test_values_that_do_not_repeat_get_none(tmp_path: Path) -> None:
    table = pa.table({"x": [f"value {i}" for i in range(40_000)]})
    for profile in ("fast", "balanced", "small"):
        write_table(table, tmp_path / "x.shard", profile=profile, overwrite=True)
        assert buffers(tmp_path / "x.shard", "x")[1] is None


def test_plans_blocks_and_indexes_can_be_told(tmp_path: Path) -> None:
    table = pa.table({"x": pa.array(range(5000), pa.int64())})
    plan = Plan(Encoding.DELTA, (Plan(Encoding.FUSED_FRAME_OF_REFERENCE),))
    write_table(table, tmp_path / "x.shard", field_options={"x": FieldOptions(plan=plan, block_values=1000)})
    kinds, _ = buffers(tmp_path / "x.shard", "x")
    assert kinds == {DATA: 5, RANGES: 0}
    assert read_table(tmp_path / "x.shard").equals(table)
    write_table(table, tmp_path / "y.shard", field_options={"x": FieldOptions(with_index=False)})
    assert RANGES not in buffers(tmp_path / "y.shard", "x")[0]


def test_files_in_other_stores_are_written(tmp_path: Path) -> None:
    table = pa.table({"x": [1, 2]})
    written = write_table(table, "memory://shards/x.shard", two_level=True)
    assert written.stripe_files[0].startswith("memory://shards/")
    assert read_table("memory://shards/x.shard").equals(table)
