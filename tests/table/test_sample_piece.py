"""Pieces of samples against the samples themselves, for any change of the files and rows that they describe."""

from __future__ import annotations

import dataclasses
import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skerry.errors import FormatError, UnsupportedError
from skerry.table.statistics import column_sample, row_sample
from skerry.table.statistics.file_groups import SketchedFile, ThinnedGroup, key_of
from skerry.table.statistics.pieces import sample_piece
from skerry.table.statistics.pieces.layout import (
    decode_gone_rows,
    decode_sample_piece,
    encode_gone_rows,
    encode_sample_piece,
)
from skerry.table.statistics.pieces.sample_piece import SamplePiece
from skerry.table.statistics.row_sample import RowSample
from skerry.table.statistics.table_sample import SampleChange, TableSample
from skerry.theta import Sample
from torture import examples

K = 16
ROWS = 12
MAX_GROUPS = 5


def sampled(values):
    return Sample(K).update(pa.array(sorted(values), pa.int64()))


class History:
    """A table's files as lists of values, some of them without a third column, and its samples after each change."""

    def __init__(self, seed):
        self.chance = random.Random(seed)
        self.files = {}
        self.sample = TableSample()

    def sketched(self, name, deletes=0):
        values, partition, columns = self.files[name]
        rows = None
        if self.chance.random() < 0.9:
            priorities = np.sort(np.array([self.chance.randrange(1 << 32) for _ in values], np.uint32))
            positions = np.arange(len(values)) if columns > 1 else np.full(len(values), -1)
            table = pa.table({str(number): pa.array(values, pa.int64()) for number in range(1, columns + 1)})
            rows = RowSample(priorities=priorities, positions=positions, files=np.zeros(len(values), np.uint64))
            rows = dataclasses.replace(rows, values=table)
        samples = {
            number: sampled({value % (7 * number) if number > 1 else value for value in values})
            for number in range(1, columns + 1)
        }
        return SketchedFile(name, partition, len(values), samples, deletes, rows)

    def new(self, count):
        names = [f"f{self.chance.randrange(1 << 40)}" for _ in range(count)]
        for name in names:
            values = [self.chance.randrange(200) for _ in range(self.chance.randrange(1, 30))]
            self.files[name] = (values, self.chance.choice("pqr"), self.chance.choice([2, 2, 2, 2, 2, 3, 3]))
        return tuple(self.sketched(name) for name in names)

    def some(self, most=3):
        return self.chance.sample(sorted(self.files), min(len(self.files), self.chance.randrange(most + 1)))

    def change(self, kind):
        """A random change of a kind, as commits describe them."""
        if kind == "append":
            return SampleChange(added=self.new(self.chance.randrange(1, 4)))
        if kind == "remove":
            gone = self.some()
            for name in gone:
                del self.files[name]
            return SampleChange(removed=frozenset(gone), added=self.new(self.chance.randrange(2)))
        if kind == "compact":
            gone = self.some()
            together = {}
            for name in gone:
                values, partition, columns = self.files.pop(name)
                together.setdefault((partition, columns), []).extend(values)
            added = []
            for (partition, columns), values in together.items():
                added.append(f"f{self.chance.randrange(1 << 40)}")
                self.files[added[-1]] = (values, partition, columns)
            return SampleChange(
                removed=frozenset(gone), added=tuple(self.sketched(name) for name in added), same_rows=bool(gone)
            )
        if kind == "equality":
            return SampleChange(rows_gone={self.chance.choice(["p", None]): self.chance.randrange(1 << 64)})
        deletes = {name: self.chance.randrange(1 << 64) for name in self.some()}
        known = self.sample.groups.files
        if kind == "thin":
            return SampleChange(deletes=deletes, thinned=tuple(self.thinned(deletes)))
        again = [
            self.sketched(name, known[key_of(name)] ^ key) for name, key in deletes.items() if key_of(name) in known
        ]
        return SampleChange(deletes=deletes, resketched=tuple(again))

    def thinned(self, deletes):
        changed = {key_of(name): delta for name, delta in deletes.items()}
        groups = self.sample.groups
        for row, group in enumerate(groups.groups):
            touched = group.files.keys() & changed.keys()
            if touched and group.exact:
                gone = {}
                for id_, column in groups.columns.items():
                    held = column.group(row).hashes
                    gone[id_] = held[[self.chance.random() < 0.3 for _ in held]]
                yield ThinnedGroup(
                    group.files,
                    {key: group.files[key] ^ changed[key] for key in touched},
                    max(group.row_count - 1, 0),
                    gone,
                    {key: np.array([0, 2], np.int64) for key in touched},
                )


def stored(piece, before):
    """A piece as it is read again."""
    rows = piece.rows
    if rows is not None:
        rows = decode_gone_rows(encode_gone_rows(rows), rows.added)
    return decode_sample_piece(encode_sample_piece(piece, before), before, rows)


def assert_same(found, expected):
    """The same groups, hashes in each of them, thresholds and rows."""
    assert found.groups == expected.groups
    assert found.columns.keys() == expected.columns.keys()
    for id_, column in expected.columns.items():
        assert found.columns[id_].theta == column.theta
        for row in range(len(expected.groups)):
            assert np.array_equal(found.columns[id_].group(row).hashes, column.group(row).hashes), (id_, row)
    if expected.rows is None:
        assert found.rows is None
        return
    assert (found.rows.theta, found.rows.blurred) == (expected.rows.theta, expected.rows.blurred)
    assert sorted(records(found.rows)) == sorted(records(expected.rows))


def records(sample):
    """The rows of a sample; the column that all rows have."""
    values = sample.values.column("1").to_pylist() if len(sample) else []
    return zip(sample.priorities.tolist(), sample.files.tolist(), sample.positions.tolist(), values, strict=True)


KINDS = ["append", "append", "remove", "compact", "equality", "thin", "thin", "resketch"]


@settings(max_examples=examples(60, 2000))
@given(st.integers(0, 1 << 32), st.lists(st.sampled_from(KINDS), min_size=1, max_size=12))
def test_pieces_of_any_history_make_the_samples_that_would_be_written_whole(seed, kinds):
    with pytest.MonkeyPatch.context() as patch:
        for module in (column_sample, sample_piece):
            patch.setattr(module, "SAMPLE_HASHES", K)
        patch.setattr(row_sample, "most_rows", lambda columns: ROWS)
        history = History(seed)
        history.sample = history.sample.after(SampleChange(added=history.new(4)), max_groups=MAX_GROUPS)
        whole, pieces = history.sample.groups, []
        for kind in kinds:
            before = history.sample.groups
            change = history.change(kind)
            history.sample = history.sample.after(change, max_groups=MAX_GROUPS)
            after = history.sample.groups
            said = thetas_of(whole, pieces)
            piece = appended(before, change, said) if kind == "append" else None
            piece = piece or SamplePiece.between(before, after, said)
            if piece is None:
                whole, pieces = after, []
                continue
            assert_same(stored(piece, before.groups).applied_to(before), after)
            pieces.append(stored(piece, before.groups))
            if history.chance.random() < 0.4 and len(pieces) > 1:
                last = pieces.pop()
                pieces[-1] = pieces[-1].then(last)
            together = pieces[0]
            for later in pieces[1:]:
                together = together.then(later)
            assert_same(stored(together, whole.groups).applied_to(whole), after)


def thetas_of(whole, pieces):
    thetas = {id_: column.theta for id_, column in whole.columns.items()}
    for piece in pieces:
        thetas = {id_: min(theta, piece.thetas.get(id_, theta)) for id_, theta in thetas.items()}
    return thetas


def appended(before, change, thetas):
    """The piece of an append, which is made without the samples; None if files lack columns."""
    if not before.groups or not all(before.columns.keys() <= file.samples.keys() for file in change.added):
        return None
    wanted = {id_: thetas[id_] for id_ in before.columns}
    theta = None if before.rows is None else before.rows.theta
    return SamplePiece.of_files(before.groups, wanted, theta, change.added, MAX_GROUPS)


def some_piece():
    """A piece of a group that lost a file and a value, of another that lost rows, and of a new one."""
    history = History(5)
    before = history.sample.after(SampleChange(added=history.new(4)), max_groups=2)
    history.sample = before
    gone = frozenset(sorted(history.files)[:1])
    history.files.pop(*gone)
    other = min(history.files)
    change = SampleChange(removed=gone, deletes={other: 77}, added=history.new(2))
    after = before.after(change, max_groups=3).groups
    piece = SamplePiece.between(before.groups, after)
    assert piece is not None
    assert len(piece.hashes)
    return piece, before.groups.groups


def test_bytes_that_are_no_piece_are_refused():
    piece, before = some_piece()
    data = encode_sample_piece(piece, before)
    assert decode_sample_piece(data, before, None).groups == piece.groups
    with pytest.raises(UnsupportedError, match="piece of samples of version 2; this version reads 1"):
        decode_sample_piece(b"\x02" + data[1:], before, None)
    with pytest.raises(FormatError, match=r"reach beyond the end.*samples\.md § 5"):
        decode_sample_piece(data[:20], before, None)
    with pytest.raises(FormatError, match="groups are made of others up to 1, of which there are 1"):
        decode_sample_piece(data, before[:1], None)
    for place in range(4, 44):
        for value in (data[place] ^ 1, 255):
            changed = data[:place] + bytes([value]) + data[place + 1 :]
            if changed != data:
                with pytest.raises(FormatError):
                    decode_sample_piece(changed, before, None)
    gone = encode_gone_rows(piece.rows)
    with pytest.raises(UnsupportedError, match="gone rows of version 3"):
        decode_gone_rows(b"\x03" + gone[1:], RowSample())
    for bad in (gone[:7], gone[:-1], gone[:4] + b"\xff\xff\xff\xff" + gone[8:]):
        with pytest.raises(FormatError, match="§ 6"):
            decode_gone_rows(bad, RowSample())


@pytest.mark.parametrize(
    "changed", [lambda values: values[::-1].copy(), lambda values: values | np.uint64(1 << 63)], ids=["order", "limit"]
)
def test_hashes_out_of_order_are_refused(changed):
    piece, before = some_piece()
    hashes = dataclasses.replace(piece.hashes, values=changed(piece.hashes.values))
    data = encode_sample_piece(dataclasses.replace(piece, hashes=hashes), before)
    with pytest.raises(FormatError, match="do not ascend below the threshold"):
        decode_sample_piece(data, before, None)


def test_a_threshold_out_of_range_is_refused():
    piece, before = some_piece()
    for theta in (0, 1 << 63):
        data = encode_sample_piece(dataclasses.replace(piece, thetas={1: theta}), before)
        with pytest.raises(FormatError, match="a threshold is out of range"):
            decode_sample_piece(data, before, None)


def test_what_a_piece_cannot_say_is_written_whole():
    history = History(9)
    before = history.sample.after(SampleChange(added=history.new(3)), max_groups=9).groups
    more = before.with_column(9, [sampled([1]).compact for _ in before.groups])
    assert SamplePiece.between(before, more) is None, "another column"
    assert SamplePiece.between(before, dataclasses.replace(before, rows=None)) is None, "no sampled rows"
    higher = {
        id_: dataclasses.replace(column, theta=column.theta - 1, hashes=column.hashes)
        for id_, column in before.columns.items()
    }
    assert SamplePiece.between(dataclasses.replace(before, columns=higher), before) is None, "a higher threshold"
    assert SamplePiece.between(before, before.with_columns([1])).dropped == before.columns.keys() - {1}
