"""Expiring partitions: those that are older than the table's options say are dropped, in a commit of their own.

Spec: docs/formats/paimon.md § 13.7.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

from skerry.errors import SchemaError
from skerry.paimon.change_request import ChangeRequest
from skerry.paimon.cleaning.partition_times import PartitionCheck, PartitionTimes
from skerry.paimon.jobs.append import overwrite_partitions
from skerry.paimon.manifests.live_files import live_entries
from skerry.paimon.manifests.manifest import ManifestEntry
from skerry.paimon.metadata.option_values import parse_choice, parse_duration_ms, parse_int
from skerry.paimon.metadata.partition_names import partition_texts
from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.writing.data_files import local_millis
from skerry.table.owned_files import after_publish
from skerry.table.summaries import PartitionExpireSummary

__all__ = ["expire_due_partitions", "expire_partitions"]

_PREFIX = "partition.expiration-"


class _Strategy(Enum):
    """What the age of a partition is."""

    VALUES_TIME = "values-time"
    UPDATE_TIME = "update-time"


@dataclass(frozen=True, slots=True)
class _Rule:
    """Which partitions expire.

    Args:
        age: Older ones do.
        strategy: What their age is.
        times: The moments that they stand for.
        most: Maximum number of partitions that expire at once.
    """

    age: timedelta
    strategy: _Strategy
    times: PartitionTimes
    most: int

    @classmethod
    def of(cls, state: PaimonState, older_than: timedelta | None) -> _Rule | None:
        """The rule of a table's options; None if they have none.

        Raises:
            SchemaError: The table has no partitions, or an option has an invalid value.
            UnsupportedError: The strategy is unknown.
        """
        options = state.schema.options
        text = options.get(f"{_PREFIX}time", "").strip()
        if older_than is None and not text:
            return None
        if not state.schema.partition_keys:
            raise SchemaError(f"table option {_PREFIX}time needs a table with partitions", location=state.name)
        age = timedelta(milliseconds=parse_duration_ms(f"{_PREFIX}time", text)) if older_than is None else older_than
        strategy = parse_choice(
            f"{_PREFIX}strategy", options.get(f"{_PREFIX}strategy", _Strategy.VALUES_TIME.value), _Strategy
        )
        pattern, form = (options.get(f"partition.timestamp-{name}") for name in ("pattern", "formatter"))
        times = PartitionTimes(state.schema.partition_keys, pattern, form)
        return cls(age, strategy, times, parse_int(f"{_PREFIX}max-num", options.get(f"{_PREFIX}max-num", "100")))


def expire_due_partitions(request: ChangeRequest, state: PaimonState, check: PartitionCheck) -> None:
    """Expire partitions after a commit, if it is time for it; a failure is logged, and the next check tries again."""
    if state.schema.options.get(f"{_PREFIX}time", "").strip() and check.is_due(state.schema.options):
        with after_publish("expiring partitions"):
            expire_partitions(request)


def expire_partitions(
    request: ChangeRequest, older_than: timedelta | None = None, *, dry_run: bool = False
) -> PartitionExpireSummary:
    """Drop the partitions that have expired, as many as an option allows at once.

    Args:
        request: The branch.
        older_than: The age; `partition.expiration-time` if None.
        dry_run: Only report what would be dropped.

    Raises:
        ConflictError: Other writers won every race.
        CommitUnknownError: The outcome is unknown.
        SchemaError: The table has no partitions, no age is given, or an option has an invalid value.
    """
    state = request.target.load()
    rule = _Rule.of(state, older_than)
    if rule is None:
        raise SchemaError(f"give older_than=, or set the table option {_PREFIX}time", location=state.name)
    expired = _expired(state, rule)
    entries = [entry for found in expired.values() for entry in found[1]]
    names = tuple(name for name, _ in expired.values())
    snapshot_id = state.snapshot.id if state.snapshot is not None else None
    rows = sum(entry.file.row_count for entry in entries)
    if expired and not dry_run:
        done = overwrite_partitions(request, None, frozenset(expired).intersection)
        snapshot_id = done.snapshot_id
    return PartitionExpireSummary(snapshot_id, names, len(entries), rows, dry_run=dry_run)


def _expired(state: PaimonState, rule: _Rule) -> dict[bytes, tuple[str, list[ManifestEntry]]]:
    """The partitions to drop, with their names and files, in the order of their values."""
    found: dict[bytes, list[ManifestEntry]] = {}
    for entry in live_entries(state) if state.snapshot is not None else ():
        found.setdefault(entry.partition, []).append(entry)
    texts = dict(zip(found, partition_texts(state.schema.partition_fields, list(found), legacy=False), strict=True))
    # creation times are those of the writers' local clocks
    newest = int(local_millis() - rule.age.total_seconds() * 1000)
    border = datetime.now() - rule.age
    chosen = [
        partition
        for partition, entries in found.items()
        if (
            _is_older(rule.times.moment(texts[partition]), border)
            if rule.strategy is _Strategy.VALUES_TIME
            else all(_created(entry) < newest for entry in entries)
        )
    ]
    chosen.sort(key=lambda partition: [text or "" for text in texts[partition]])
    keys = state.schema.partition_keys
    return {partition: (_name(keys, texts[partition]), found[partition]) for partition in chosen[: max(rule.most, 0)]}


def _is_older(moment: datetime | None, border: datetime) -> bool:
    return moment is not None and moment < border


def _created(entry: ManifestEntry) -> int:
    """Milliseconds; a file of unknown age is new."""
    return local_millis() if entry.file.creation_time is None else entry.file.creation_time


def _name(keys: Sequence[str], texts: Collection[str | None]) -> str:
    return "/".join(f"{key}={text}" for key, text in zip(keys, texts, strict=True))
