"""Properties of schema changes and of the retention policy, against models that are too simple to be wrong."""

from __future__ import annotations

from types import SimpleNamespace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.errors import FormatError, SchemaError
from skerry.iceberg.cleaning.expiry import ExpireSnapshots
from skerry.iceberg.evolution.schema_draft import SchemaDraft
from skerry.iceberg.metadata.history import ancestors, is_ancestor
from skerry.iceberg.metadata.schema import Schema
from skerry.iceberg.metadata.snapshot import Snapshot, SnapshotRef, SnapshotRefType
from skerry.iceberg.metadata.types import IntegerType, NestedField, StructType

# Schema changes ------------------------------------------------------------------------------------------------------

NAMES = st.sampled_from(["a", "b", "c", "d", "e"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), NAMES),
        st.tuples(st.just("delete"), NAMES),
        st.tuples(st.just("rename"), NAMES, NAMES),
        st.tuples(st.just("first"), NAMES),
        st.tuples(st.just("before"), NAMES, NAMES),
        st.tuples(st.just("after"), NAMES, NAMES),
    ),
    max_size=25,
)


def step_model(model, next_id, kind, name, other=None):
    """The same on a list of (name, id); None if it must be refused."""
    names = [known for known, _ in model]
    if kind == "add":
        return None if name in names else [*model, (name, next_id)]
    if name not in names:
        return None
    field = model[names.index(name)]
    rest = [known for known in model if known != field]
    if kind == "delete":
        return rest or None
    if kind == "rename":
        if other in names and other != name:
            return None
        return [(other, number) if number == field[1] else (known, number) for known, number in model]
    if kind == "first":
        return [field, *rest]
    if other not in names or other == name:
        return None
    at = [known for known, _ in rest].index(other) + (kind == "after")
    return [*rest[:at], field, *rest[at:]]


def step_draft(draft, kind, name, other=None):
    if kind == "add":
        draft.add(name, pa.int64(), None, False, None)
    elif kind == "delete":
        draft.delete(name)
    elif kind == "rename":
        draft.rename(name, other)
    elif kind == "first":
        draft.move(name, lambda others, field: 0)
    else:
        draft.move(name, draft.position_of(name, other, offset=int(kind == "after")))


@given(STEPS, st.booleans())
def test_schema_changes_are_those_of_a_list(steps, nested):
    model = [("a", 11), ("b", 12)]
    fields = [NestedField(number, name, IntegerType()) for name, number in model]
    if nested:
        fields = [NestedField(1, "s", StructType(*fields))]
    draft = SchemaDraft(Schema(*fields), 12, 2)
    next_id = 13
    for kind, *names in steps:
        expected = step_model(model, next_id, kind, *names)
        paths = [["s", name] if nested else name for name in names]
        if kind == "rename" and nested:
            paths[1] = names[1]
        if expected is None:
            with pytest.raises(SchemaError):
                step_draft(draft, kind, *paths)
        else:
            step_draft(draft, kind, *paths)
            model = expected
            next_id += kind == "add"
        found = draft.fields[0].field_type.fields if nested else draft.fields
        assert [(field.name, field.field_id) for field in found] == model


# Retention -----------------------------------------------------------------------------------------------------------


@st.composite
def histories(draw):
    """A forest of snapshots, older parents first, and references into it."""
    count = draw(st.integers(1, 12))
    snapshots = []
    for number in range(count):
        parent = draw(st.one_of(st.none(), st.integers(0, number - 1))) if number else None
        snapshots.append(
            Snapshot(snapshot_id=number, parent_snapshot_id=parent, timestamp_ms=1000 + number, manifest_list="m")
        )
    refs = {"main": _branch(draw, count)}
    for name in draw(st.lists(st.sampled_from(["b", "c"]), unique=True)):
        refs[name] = _branch(draw, count)
    for name in draw(st.lists(st.sampled_from(["t", "u"]), unique=True)):
        refs[name] = SnapshotRef(
            snapshot_id=draw(st.integers(0, count - 1)),
            snapshot_ref_type=SnapshotRefType.TAG,
            max_ref_age_ms=draw(st.one_of(st.none(), st.integers(1, 15))),
        )
    by_id = {snapshot.snapshot_id: snapshot for snapshot in snapshots}
    return SimpleNamespace(snapshots=snapshots, refs=refs, snapshot_by_id=by_id.get, location="here")


def _branch(draw, count):
    return SnapshotRef(
        snapshot_id=draw(st.integers(0, count - 1)),
        snapshot_ref_type=SnapshotRefType.BRANCH,
        min_snapshots_to_keep=draw(st.one_of(st.none(), st.integers(1, 4))),
        max_snapshot_age_ms=draw(st.one_of(st.none(), st.integers(1, 15))),
        max_ref_age_ms=draw(st.one_of(st.none(), st.integers(1, 15))),
    )


@given(histories(), st.integers(1000, 1020), st.integers(1, 4))
def test_what_is_kept_is_what_the_policy_says(metadata, older_than_ms, keep_last):
    now = 1015
    base = SimpleNamespace(metadata=metadata, properties={}, name="d.t")
    plan = ExpireSnapshots(now, keep_last, older_than_ms).plan(base)
    kept = {snapshot.snapshot_id for snapshot in metadata.snapshots} - set(plan.snapshot_ids)
    assert "main" not in plan.refs
    reached = set()
    wanted = set()
    for name, ref in metadata.refs.items():
        tip = metadata.snapshot_by_id(ref.snapshot_id)
        too_old = name != "main" and ref.max_ref_age_ms is not None and now - tip.timestamp_ms > ref.max_ref_age_ms
        assert (name in plan.refs) == too_old
        if too_old:
            continue
        assert ref.snapshot_id in kept, "no reference dangles"
        line = [tip] if ref.snapshot_ref_type is SnapshotRefType.TAG else list(ancestors(metadata, tip))
        reached |= {snapshot.snapshot_id for snapshot in line}
        cutoff = older_than_ms if ref.max_snapshot_age_ms is None else now - ref.max_snapshot_age_ms
        least = ref.min_snapshots_to_keep or keep_last
        wanted |= {s.snapshot_id for position, s in enumerate(line) if position < least or s.timestamp_ms >= cutoff}
        if ref.snapshot_ref_type is SnapshotRefType.TAG:
            wanted.add(ref.snapshot_id)
    for snapshot in metadata.snapshots:
        if snapshot.snapshot_id not in reached and snapshot.timestamp_ms >= older_than_ms:
            wanted.add(snapshot.snapshot_id)
    assert kept == wanted


def test_a_snapshot_that_is_its_own_ancestor():
    one = Snapshot(snapshot_id=1, parent_snapshot_id=2, timestamp_ms=1, manifest_list="m")
    two = Snapshot(snapshot_id=2, parent_snapshot_id=1, timestamp_ms=1, manifest_list="m")
    metadata = SimpleNamespace(snapshot_by_id={1: one, 2: two}.get, location="s3://b/t")
    assert is_ancestor(metadata, one, 2)
    with pytest.raises(FormatError, match="snapshot 1 is its own ancestor"):
        is_ancestor(metadata, one, 3)
