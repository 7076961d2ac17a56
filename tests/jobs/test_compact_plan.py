"""Which files are worth being written anew, and together with which."""

from __future__ import annotations

import pytest

from skerry.errors import SchemaError
from skerry.iceberg.jobs.compact_plan import CompactRules, RewriteReason, plan_groups
from skerry.table.files.data_file import DataFile, DeleteFile, DeleteKind
from skerry.table.files.scan_task import FileScanTask
from skerry.table.summaries import CompactOptions

RULES = CompactRules(target_file_size_bytes=100, min_input_files=3, max_group_bytes=250)
DELETE = DeleteFile(DeleteKind.POSITIONS, "d", "parquet", 1, 10)


def task(name, size, partition=(), deletes=()):
    return FileScanTask(DataFile(name, "parquet", 10, size, 0, partition), deletes=tuple(deletes))


def planned(*tasks, rules=RULES, order=None):
    return [(group.reason, "".join(group.locations)) for group in plan_groups(tasks, rules, order)]


def test_files_of_a_good_size_are_left_alone():
    assert planned(task("a", 75), task("b", 180), task("c", 100), task("d", 99)) == []


def test_few_small_files_are_left_alone_unless_they_fill_one():
    assert planned(task("a", 10), task("b", 10)) == []
    assert planned(task("a", 60), task("b", 60)) == [(RewriteReason.MANY_SMALL, "ab")]
    assert planned(task("a", 1), task("b", 1), task("c", 1)) == [(RewriteReason.MANY_SMALL, "abc")]


def test_partitions_stay_apart_and_nan_is_one():
    nan = float("nan")
    found = planned(*(task(name, 1, (part,)) for name, part in zip("abcdef", [1, nan, 1, nan, 1, nan], strict=True)))
    assert found == [(RewriteReason.MANY_SMALL, "ace"), (RewriteReason.MANY_SMALL, "bdf")]


def test_files_with_deletes_and_large_files_are_worth_it_alone():
    assert planned(task("a", 100, deletes=[DELETE])) == [(RewriteReason.DELETES, "a")]
    assert planned(task("a", 181)) == [(RewriteReason.TOO_LARGE, "a")]
    twice = CompactRules(100, min_deletes=2)
    assert planned(task("a", 100, deletes=[DELETE]), rules=twice) == []
    assert planned(task("a", 100, deletes=[DELETE, DELETE]), rules=twice) == [(RewriteReason.DELETES, "a")]
    assert planned(task("a", 100, deletes=[DELETE]), rules=CompactRules(100, min_deletes=None)) == []


def test_groups_are_bounded_and_keep_the_order():
    found = planned(*(task(name, 70) for name in "abcdefg"))
    assert found == [(RewriteReason.MANY_SMALL, "abc"), (RewriteReason.MANY_SMALL, "def")], "g alone is not worth it"
    assert planned(*(task(name, 70) for name in "cab"), order=lambda t: t.data_file.location) == [
        (RewriteReason.MANY_SMALL, "abc")
    ]


def test_everything_on_request():
    rules = CompactRules(100, all_files=True, max_group_bytes=1000)
    assert planned(task("a", 100), task("b", 50, (1,)), rules=rules) == [
        (RewriteReason.ASKED, "a"),
        (RewriteReason.ASKED, "b"),
    ]


@pytest.mark.parametrize(
    ("rule", "value"),
    [("target_file_size_bytes", 0), ("min_input_files", 1), ("min_deletes", 0), ("min_deletes", True)],
)
def test_rules_that_make_no_sense(rule, value):
    with pytest.raises(SchemaError, match=f"{rule} must be a whole number"):
        CompactOptions(**{rule: value})
