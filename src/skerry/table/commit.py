"""The commit loop: one for every operation on every table format.

Optimistic concurrency in five steps: load the base state, apply the operation to it, stage the files that the new state
needs, publish, and after a lost race begin again on the new base. A commit ends in one of three ways:

- **committed**: `publish` returned, or reading back showed the change in the table;
- **conflict**: another writer was first. What this attempt staged is discarded and the operation is applied again;
- **unknown**: the outcome cannot be known. Nothing is discarded, because the table may refer to it.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from skerry.errors import CommitUnknownError, ConflictError, SkerryError
from skerry.table.properties import whole_number

__all__ = ["CommitTarget", "Operation", "RetryPolicy", "commit"]

Base = TypeVar("Base")
BaseIn = TypeVar("BaseIn", contravariant=True)
ChangeOut = TypeVar("ChangeOut", covariant=True)
Change = TypeVar("Change")
ChangeIn = TypeVar("ChangeIn", contravariant=True)
Staged = TypeVar("Staged")


class Operation(Protocol[BaseIn, ChangeOut]):
    """What a caller wants done to a table, stated so that it can be applied to whatever state the table is in."""

    def apply(self, base: BaseIn) -> ChangeOut | None:
        """Decide the change that brings `base` to the wanted state; None if there is nothing to do.

        Called once per attempt, each time with the newest state. Must not publish anything.

        Raises:
            ConflictError: with `retryable` false, when the operation is no longer valid on this base.
        """
        ...


class CommitTarget(Protocol, Generic[Base, ChangeIn, Staged]):
    """A table as the commit loop sees it."""

    def load(self) -> Base:
        """Load the newest published state."""
        ...

    def stage(self, base: Base, change: ChangeIn) -> Staged:
        """Write the files that the new state refers to; removes what it wrote if it fails half-way."""
        ...

    def publish(self, staged: Staged) -> Base:
        """Make the staged state the table's state, atomically.

        Raises:
            ConflictError: the table has moved on; nothing was published.
            CommitUnknownError: the table may or may not have been changed.
            SkerryError: any other failure before anything was published.
        """
        ...

    def find_published(self, staged: Staged) -> Base | None:
        """The table's newest state if it holds the staged change, None if it does not (yet)."""
        ...

    def discard(self, staged: Staged) -> None:
        """Remove the files of an attempt that has provably not been published."""
        ...


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how fast a commit that lost a race tries again.

    Args:
        num_retries: Further attempts after the first.
        min_wait_ms: Wait before the first retry; doubles with every further one.
        max_wait_ms: Upper limit of one wait.
        total_timeout_ms: No new attempt begins after this time.

    Spec: Iceberg table properties `commit.retry.*`.
    """

    num_retries: int = 4
    min_wait_ms: int = 100
    max_wait_ms: int = 60_000
    total_timeout_ms: int = 1_800_000

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> RetryPolicy:
        """Read `commit.retry.num-retries`, `.min-wait-ms`, `.max-wait-ms` and `.total-timeout-ms`.

        Raises:
            SchemaError: A value is not a whole number from 0.
        """

        defaults = cls()
        return cls(
            num_retries=whole_number(properties, "commit.retry.num-retries", defaults.num_retries, least=0),
            min_wait_ms=whole_number(properties, "commit.retry.min-wait-ms", defaults.min_wait_ms, least=0),
            max_wait_ms=whole_number(properties, "commit.retry.max-wait-ms", defaults.max_wait_ms, least=0),
            total_timeout_ms=whole_number(
                properties, "commit.retry.total-timeout-ms", defaults.total_timeout_ms, least=0
            ),
        )

    def waits_s(self) -> Iterator[float]:
        """The wait in seconds before each retry: exponential, with full jitter so that rivals spread out."""
        ceiling = float(self.min_wait_ms)
        for _ in range(self.num_retries):
            ceiling = min(ceiling, float(self.max_wait_ms))
            yield random.uniform(ceiling / 2, ceiling) / 1000
            ceiling *= 2


def commit(
    operation: Operation[Base, Change],
    target: CommitTarget[Base, Change, Staged],
    policy: RetryPolicy | Callable[[Base], RetryPolicy] | None = None,
) -> Base:
    """Commit `operation` to `target`, again on the new state after every lost race.

    Args:
        operation: What to do.
        target: The table.
        policy: How to retry, or a function that reads it from the first base state.

    Returns:
        The table's state with the change in it, or the unchanged base if the operation had nothing to do.

    Raises:
        ConflictError: The retries are used up, or the operation cannot be applied to the new state.
        CommitUnknownError: The outcome is unknown, also after reading back. Nothing was cleaned up.
    """
    base = target.load()
    retry = policy(base) if callable(policy) else policy or RetryPolicy()
    waits = retry.waits_s()
    deadline = time.monotonic() + retry.total_timeout_ms / 1000
    attempts = 1
    while True:
        change = operation.apply(base)
        if change is None:
            return base
        staged = target.stage(base, change)
        try:
            return target.publish(staged)
        except ConflictError as lost:
            target.discard(staged)
            wait = next(waits, None)
            if wait is None or time.monotonic() + wait > deadline:
                lost.message = f"gave up after {attempts} attempt{'s' * (attempts > 1)}: {lost.message}"
                raise
        except CommitUnknownError:
            published = target.find_published(staged)
            if published is None:
                raise
            return published
        except SkerryError:
            target.discard(staged)
            raise
        time.sleep(wait)
        attempts += 1
        base = target.load()
