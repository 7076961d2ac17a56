"""The commit loop against a table in memory: every way an attempt can end."""

import pytest

from skerry.errors import CommitUnknownError, ConflictError, NotFoundError, SchemaError
from skerry.table.commit import RetryPolicy, commit

QUICK = RetryPolicy(num_retries=4, min_wait_ms=0, max_wait_ms=0)


class Add:
    """Adds one number to a table of numbers."""

    def __init__(self, number):
        self.number = number
        self.bases = []

    def apply(self, base):
        self.bases.append(base)
        return None if self.number is None else (*base, self.number)


class Numbers:
    """A table of numbers whose publish step does what a script says before or instead of publishing."""

    def __init__(self, script=()):
        self.rows = ()
        self.script = list(script)
        self.staged = []
        self.discarded = []

    def load(self):
        return self.rows

    def stage(self, base, change):
        self.staged.append((base, change))
        return base, change

    def publish(self, staged):
        base, change = staged
        step = self.script.pop(0) if self.script else None
        if step is not None:
            step(self, staged)
        if self.rows != base:
            raise ConflictError("lost the race")
        self.rows = change
        return self.rows

    def find_published(self, staged):
        return self.rows if self.rows == staged[1] else None

    def discard(self, staged):
        self.discarded.append(staged)


def rival(number):
    def step(table, staged):
        table.rows = (*table.rows, number)

    return step


def fail(error, *, after_publishing=False):
    def step(table, staged):
        if after_publishing:
            table.rows = staged[1]
        raise error

    return step


def test_a_commit_without_rivals_publishes_once():
    table = Numbers()
    assert commit(Add(1), table, QUICK) == (1,)
    assert len(table.staged) == 1
    assert table.discarded == []


def test_after_a_lost_race_the_operation_is_applied_to_the_new_state_and_nobody_is_lost():
    table = Numbers([rival(10), rival(20)])
    add = Add(1)
    assert commit(add, table, QUICK) == (10, 20, 1)
    assert add.bases == [(), (10,), (10, 20)]
    assert table.discarded == table.staged[:2]


def test_the_retries_are_counted_and_the_last_conflict_is_raised():
    table = Numbers([rival(n) for n in range(9)])
    with pytest.raises(ConflictError, match="gave up after 3 attempts: lost the race"):
        commit(Add(1), table, RetryPolicy(num_retries=2, min_wait_ms=0))
    assert table.rows == (0, 1, 2)
    assert table.discarded == table.staged


def test_no_attempt_begins_after_the_total_timeout():
    table = Numbers([rival(n) for n in range(9)])
    with pytest.raises(ConflictError, match="gave up after 1 attempt:"):
        commit(Add(1), table, RetryPolicy(num_retries=9, min_wait_ms=50, total_timeout_ms=0))


def test_an_operation_with_nothing_to_do_stages_nothing():
    table = Numbers()
    assert commit(Add(None), table, QUICK) == ()
    assert table.staged == []


def test_an_unknown_outcome_that_reads_back_as_published_is_a_success():
    table = Numbers([fail(CommitUnknownError("connection lost"), after_publishing=True)])
    assert commit(Add(1), table, QUICK) == (1,)
    assert table.discarded == []


def test_an_unknown_outcome_is_raised_and_nothing_is_cleaned_up():
    table = Numbers([fail(CommitUnknownError("connection lost"))])
    with pytest.raises(CommitUnknownError, match="connection lost"):
        commit(Add(1), table, QUICK)
    assert table.discarded == []
    assert len(table.staged) == 1


def test_a_refused_commit_is_cleaned_up_and_not_tried_again():
    table = Numbers([fail(NotFoundError("table dropped"))])
    with pytest.raises(NotFoundError):
        commit(Add(1), table, QUICK)
    assert table.discarded == table.staged


def test_an_interrupt_while_publishing_cleans_nothing_up():
    table = Numbers([fail(KeyboardInterrupt())])
    with pytest.raises(KeyboardInterrupt):
        commit(Add(1), table, QUICK)
    assert table.discarded == []


def test_the_policy_may_come_from_the_base_state():
    table = Numbers([rival(1), rival(2)])
    with pytest.raises(ConflictError, match="gave up after 1 attempt:"):
        commit(Add(0), table, lambda base: RetryPolicy(num_retries=0))


def test_waits_double_up_to_the_limit_and_are_jittered():
    waits = list(RetryPolicy(num_retries=5, min_wait_ms=100, max_wait_ms=300).waits_s())
    for wait, ceiling in zip(waits, [0.1, 0.2, 0.3, 0.3, 0.3], strict=True):
        assert ceiling / 2 <= wait <= ceiling


def test_policy_from_properties():
    policy = RetryPolicy.from_properties(
        {
            "commit.retry.num-retries": "7",
            "commit.retry.min-wait-ms": "1",
            "commit.retry.max-wait-ms": "2",
            "commit.retry.total-timeout-ms": "3",
        }
    )
    assert policy == RetryPolicy(7, 1, 2, 3)
    assert RetryPolicy.from_properties({}) == RetryPolicy(4, 100, 60_000, 1_800_000)


@pytest.mark.parametrize("text", ["-1", "many", "1.5", ""])
def test_a_property_that_is_no_number_is_named(text):
    with pytest.raises(SchemaError, match=r"commit\.retry\.num-retries must be a whole number from 0"):
        RetryPolicy.from_properties({"commit.retry.num-retries": text})
