"""The commit loop: one for every operation on every table format.

Optimistic concurrency in five steps: load the base state, apply the operation to it, stage the files that the new state
needs, publish, and after a lost race start over from the new base. A commit ends in one of three ways:

- **committed**: `publish` returned, or reading back showed the change in the table;
- **conflict**: another writer was first, and this attempt can never succeed. The files that it staged are deleted,
  and the operation is applied again;
- **unknown**: neither is proven. Nothing is deleted, because the table may refer to the files now, or after a pending
  request arrives.

The publish step begins before its first byte is sent (`skerry.table.owned_files`): any way in which it ends, even an
interrupt, counts as unknown unless the store or catalog has proven that nothing happened.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from skerry.errors import CommitUnknownError, ConflictError
from skerry.storage import Storage
from skerry.table.owned_files import OwnedFiles, PublishStep, owned_files
from skerry.table.properties import whole_number
from skerry.table.work.telemetry import LOG, span, working

__all__ = ["CommitTarget", "NotPublishedError", "Operation", "RetryPolicy", "commit", "commit_to"]


class BaseState(Protocol):
    """A published state of a table."""

    @property
    def storage(self) -> Storage:
        """The storage of the table's files."""
        ...


Base = TypeVar("Base", bound=BaseState)
BaseIn = TypeVar("BaseIn", contravariant=True)
ChangeOut = TypeVar("ChangeOut", covariant=True)
Change = TypeVar("Change")
ChangeIn = TypeVar("ChangeIn", contravariant=True)
Staged = TypeVar("Staged")


class NotPublishedError(Exception):
    """Raised by `CommitTarget.publish` for an error that provably precedes any effect; the loop unwraps it.

    Args:
        error: The error that the caller gets.
    """

    def __init__(self, error: BaseException) -> None:
        super().__init__(str(error))
        self.error = error


class Operation(Protocol[BaseIn, ChangeOut]):
    """A change that a caller requests, stated so that it can be applied to any state of the table."""

    def apply(self, base: BaseIn) -> ChangeOut | None:
        """Decide the change that turns `base` into the wanted state; None if there is nothing to do.

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

    def stage(self, base: Base, change: ChangeIn, files: OwnedFiles) -> Staged:
        """Write the files that the new state refers to; `files` gets each before it is written."""
        ...

    def named_files(self, staged: Staged) -> Iterable[str]:
        """Locations or names of the files that were written for the change and that the new state refers to."""
        ...

    def publish(self, staged: Staged) -> Base:
        """Make the staged state the table's state, atomically.

        Raises:
            ConflictError: The table has moved on: nothing was published, and nothing of this attempt ever will be.
            NotPublishedError: Something else failed, provably before it could have an effect.
            BaseException: Anything else: the table may or may not have been changed.
        """
        ...

    def find_published(self, staged: Staged) -> Base | None:
        """Read the table back, after an attempt whose outcome is unknown.

        Returns:
            The newest state if it contains the staged change; None if that cannot be known. A base that is still the
            newest state proves nothing: the request may be pending.

        Raises:
            ConflictError: The attempt has failed for good: its base is no longer the newest state, and the change is
                not in the history since.
        """
        ...


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how quickly a commit that lost a race is retried.

    Args:
        num_retries: Further attempts after the first.
        min_wait_ms: Wait before the first retry; doubles with every further one.
        max_wait_ms: Maximum of one wait.
        total_timeout_ms: No new attempt begins after this time.

    Spec: Iceberg properties, `commit.retry.*`.
    """

    num_retries: int = 4
    min_wait_ms: int = 100
    max_wait_ms: int = 60_000
    total_timeout_ms: int = 1_800_000

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> RetryPolicy:
        """Parse `commit.retry.num-retries`, `.min-wait-ms`, `.max-wait-ms` and `.total-timeout-ms`.

        Raises:
            SchemaError: A value is not a whole number of at least 0.
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
    """Commit `operation` to `target`, applying it again to the new state after every lost race.

    Args:
        operation: What to do.
        target: The table.
        policy: How to retry, or a function that reads it from the first base state.

    Returns:
        The table's state with the change in it, or the unchanged base if the operation had nothing to do.

    Raises:
        ConflictError: The retries are exhausted, or the operation cannot be applied to the new state.
        CommitUnknownError: The outcome is unknown, even after reading back. Nothing was cleaned up.
    """
    base = target.load()
    retry = policy(base) if callable(policy) else policy or RetryPolicy()
    with span("commit", table=_place(base), operation=type(operation).__name__) as current:
        return _commit(operation, target, base, retry, current)


def _commit(
    operation: Operation[Base, Change],
    target: CommitTarget[Base, Change, Staged],
    base: Base,
    retry: RetryPolicy,
    current: Any,
) -> Base:
    """Apply and publish until it succeeds or must not be tried again.

    Args:
        operation: What to do.
        target: The table.
        base: Its state.
        retry: How to retry.
        current: The span of the commit; None if nobody traces.
    """
    place, name = _place(base), type(operation).__name__
    waits = retry.waits_s()
    deadline = time.monotonic() + retry.total_timeout_ms / 1000
    attempts = 1
    while True:
        change = operation.apply(base)
        if change is None:
            return base
        try:
            with working(place, f"committed {name}", "publish", attempt=attempts):
                return commit_to(target, base, change)
        except ConflictError as lost:
            LOG.info("%s: conflict in attempt %d of %s: %s", place, attempts, name, lost.message)
            if current is not None:
                current.add_event("conflict", {"skerry.attempt": attempts, "skerry.reason": lost.message})
            if not lost.retryable:
                raise
            wait = next(waits, None)
            if wait is None or time.monotonic() + wait > deadline:
                lost.message = f"gave up after {attempts} attempt{'s' * (attempts > 1)}: {lost.message}"
                raise
        LOG.info("%s: %s is tried again after %.0f ms", place, name, 1000 * wait)
        time.sleep(wait)
        attempts += 1
        base = target.load()


def _place(base: BaseState) -> str:
    """The name of a table's state, for the log."""
    return str(getattr(base, "name", "a table"))


def commit_to(target: CommitTarget[Base, Change, Staged], base: Base, change: Change) -> Base:
    """Stage and publish a change of one state, once.

    Args:
        target: The table.
        base: Its state.
        change: The change that was decided for that state.

    Returns:
        The table's state with the change in it.

    Raises:
        ConflictError: Another writer was first; nothing of the attempt is left.
        CommitUnknownError: The outcome is unknown, even after reading back. Nothing was cleaned up.
    """
    with owned_files(base.storage) as files:
        staged = target.stage(base, change, files)
        step = PublishStep(target.named_files(staged), files)
        try:
            return _publish(target, staged)
        except ConflictError:
            step.withdraw()
            raise
        except NotPublishedError as failure:
            step.withdraw()
            raise failure.error from failure.__cause__


def _publish(target: CommitTarget[Base, Change, Staged], staged: Staged) -> Base:
    """Publish, and read the table back if the outcome is not proven.

    An interrupt is not handled: it propagates, and nothing is read back.
    """
    try:
        return target.publish(staged)
    except (ConflictError, NotPublishedError):
        raise
    except Exception as error:
        try:
            published = target.find_published(staged)
        except ConflictError as lost:
            raise lost from error
        except Exception:  # noqa: BLE001
            published = None
        if published is not None:
            return published
        if isinstance(error, CommitUnknownError):
            raise
        raise CommitUnknownError(f"the commit may or may not have happened: {type(error).__name__}: {error}") from error
