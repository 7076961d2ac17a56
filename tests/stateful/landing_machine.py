"""The state machine with rows that were written elsewhere or before.

They come to a branch staged and published, picked from another snapshot, or added as files.
"""

from __future__ import annotations

from pathlib import Path

import hypothesis.strategies as st
import pyarrow.parquet as pq
from hypothesis import event
from hypothesis.stateful import precondition, rule
from table_machine import _KEYS, TableMachine, check_rows, tip_of
from table_model import Named, Version

from skerry.errors import AlreadyExistsError, ConflictError


class LandingMachine(TableMachine):
    """See the module."""

    def new_rows(self, data: st.DataObject, version: Version, *, most: int = 5) -> list[Named]:
        """Rows with keys that the branch does not have."""
        return self.rows(data, version, set(range(_KEYS)) - set(version.rows), most=most)

    @precondition(lambda self: self.can("stage"))
    @rule(data=st.data(), moves_on=st.booleans())
    def stage_and_publish(self, data: st.DataObject, moves_on: bool) -> None:
        branch = self.branch(data)
        version = self.model.version[branch]
        rows = self.new_rows(data, version)
        if not rows:
            return
        staged = self.table.append(version.arrow(rows), ref=branch, staged=True)
        self.table.refresh()
        check_rows(self.table.scan(snapshot=staged.snapshot_id).to_arrow(), version.with_rows(rows))
        assert tip_of(self.table, branch) == self.model.tips[branch], "nothing is published yet"
        others = self.new_rows(data, version.with_rows(rows)) if moves_on else []
        if others:
            moved = version.with_rows(others)
            self.change(branch, moved, lambda: self.table.append(version.arrow(others), ref=branch))
        event(f"published {'after others' if others else 'at once'}")
        before = self.model.version[branch]
        self.change(
            branch,
            before.with_rows(rows),
            lambda: self.table.publish(staged.summary["wap.id"], ref=branch),
            same_rows=set(before.rows),
        )

    @precondition(lambda self: self.can("cherry-pick") and self.model.snapshots)
    @rule(data=st.data())
    def cherry_pick(self, data: st.DataObject) -> None:
        branch = self.branch(data)
        version, tip = self.model.version[branch], self.model.tips[branch]
        line = set(self.model.ancestors(tip))
        others = [snapshot for snapshot in self.model.snapshots if snapshot not in line]
        if not others:
            return
        picked = data.draw(st.sampled_from(others), "snapshot")
        after = self.picked(picked, tip, version)
        if after is None:
            return
        try:
            self.change(branch, after, lambda: self.table.cherry_pick(picked, ref=branch), same_rows=set(version.rows))
            event("picked")
        except (AlreadyExistsError, ConflictError) as error:
            event(f"not picked: {type(error).__name__}")
            self.table.refresh()

    def picked(self, snapshot: int, tip: int | None, version: Version) -> Version | None:
        """What a branch holds when a snapshot was picked; None if a key would be there twice, or nobody knows."""
        content, parent = self.model.snapshots[snapshot], self.model.parents[snapshot]
        if parent == tip:
            return content.with_columns(version.columns)
        if parent is not None and parent not in self.model.snapshots:
            return None
        before = self.model.snapshots[parent].rows if parent is not None else {}
        added = {key: row for key, row in content.rows.items() if key not in before}
        if added.keys() & version.rows.keys():
            return None
        return Version(version.columns, {**version.rows, **added})

    @precondition(lambda self: self.can("add files"))
    @rule(data=st.data())
    def add_a_file(self, data: st.DataObject) -> None:
        branch = self.branch(data)
        version = self.model.version[branch]
        rows = self.new_rows(data, version, most=1)  # one row is always of one partition
        if not rows:
            return
        folder = Path(self.table.location.removeprefix("file://")) / "data"
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"{self.new_name('added')}.parquet"
        pq.write_table(version.arrow(rows), file)
        self.change(
            branch,
            version.with_rows(rows),
            lambda: self.table.add_files([str(file)], ref=branch),
            same_rows=set(version.rows),
        )
