"""Tables made by Spark and Iceberg's Java classes: the rows of every snapshot, branch and tag, without a JVM."""

from __future__ import annotations

import pytest
from foreign_samples import plain_rows, sample_names, unpack

LINEAGE = ["id", "_row_id", "_last_updated_sequence_number"]


def scan(table, state, **options):
    kind, _, name = state.partition(":")
    if state == "current":
        return table.scan(**options)
    return table.scan(ref=name, **options) if name else table.scan(snapshot=int(kind), **options)


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    """A function that opens each sample once."""
    found = {}

    def open_sample(name):
        if name not in found:
            sample = unpack(name)
            found[name] = sample, sample.open(tmp_path_factory.mktemp(name))
        return found[name]

    return open_sample


@pytest.mark.parametrize("name", sample_names())
def test_every_state_has_the_rows_that_were_put_there(opened, name):
    sample, table = opened(name)
    assert len(sample.states) >= 2
    for state, rows in sample.states.items():
        assert plain_rows(scan(table, state).to_arrow()) == rows, state
        assert scan(table, state).count() == len(rows), state


@pytest.mark.parametrize("name", sample_names())
def test_conditions_and_columns_choose_among_them(opened, name):
    sample, table = opened(name)
    for state, rows in sample.states.items():
        found = scan(table, state, columns=["id"], where="id BETWEEN 2 AND 35 AND id <> 20").to_arrow()
        assert plain_rows(found) == [{"id": row["id"]} for row in rows if 2 <= row["id"] <= 35 and row["id"] != 20]
        text = next((column for column in rows[0] if column in ("name", "title", "label")), None)
        for value in {row[text] for row in rows[:1] + rows[-1:]} if text else ():
            condition = f"{text} IS NULL" if value is None else f"{text} = '{value}'"
            wanted = [row for row in rows if row[text] == value]
            assert plain_rows(scan(table, state, where=condition).to_arrow()) == wanted, (state, condition)


@pytest.mark.parametrize("name", sample_names())
def test_rows_keep_their_ids_and_tell_what_updated_them(opened, name):
    sample, table = opened(name)
    for state, lineage in sample.lineage.items():
        found = plain_rows(scan(table, state, columns=LINEAGE).to_arrow())
        expected = [
            dict(zip(LINEAGE, (row["id"], *numbers), strict=True))
            for row, numbers in zip(sample.states[state], lineage, strict=True)
        ]
        assert found == expected, state
