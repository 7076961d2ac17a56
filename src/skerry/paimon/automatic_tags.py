"""Tags that commits create by themselves, one per period, and the success files that tell others of a tag.

Spec: docs/formats/paimon.md § 13.9.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from enum import Enum
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from skerry.errors import AlreadyExistsError, NotFoundError, SchemaError
from skerry.paimon.metadata.option_values import parse_bool, parse_choice, parse_duration_ms, parse_int
from skerry.paimon.metadata.snapshot import BATCH_COMMIT_IDENTIFIER, Snapshot
from skerry.paimon.metadata.snapshots import find_snapshot, snapshot_ids
from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.metadata.tags import Tag, create_tag, delete_tag, find_tag, tag_names
from skerry.storage import join

__all__ = ["AutomaticTags", "note_tag_created", "note_tag_deleted", "success_folder", "tag_automatically"]

_EPOCH: Final = datetime(1970, 1, 1)
_BATCH_TAG: Final = "batch-write-"
_SUCCESS: Final = "tag.create-success-file"


class _Mode(Enum):
    """What the time of a snapshot is."""

    NONE = "none"
    PROCESS_TIME = "process-time"
    WATERMARK = "watermark"
    BATCH = "batch"
    """One tag a day, at the newest batch commit."""


class _Period(Enum):
    """How often there is a tag."""

    DAILY = "daily"
    HOURLY = "hourly"
    TWO_HOURS = "two-hours"


class _Form(Enum):
    """How the names of tags are written."""

    WITH_DASHES = "with_dashes"
    WITHOUT_DASHES = "without_dashes"
    WITHOUT_DASHES_AND_SPACES = "without_dashes_and_spaces"


_PERIODS: Final = {
    _Period.DAILY: timedelta(days=1),
    _Period.HOURLY: timedelta(hours=1),
    _Period.TWO_HOURS: timedelta(hours=2),
}
_DAYS: Final = {_Form.WITH_DASHES: "%Y-%m-%d"}
_HOURS: Final = {_Form.WITH_DASHES: "%Y-%m-%d %H", _Form.WITHOUT_DASHES: "%Y%m%d %H"}


@dataclass(frozen=True, slots=True)
class _BatchTags:
    """How batch commits are tagged.

    Args:
        zone: The time zone of days; that of this process if None.
        name: The name of the only tag; None for one a day.
        most: How many of a day stay; None for all.
        retained: How long each stays; None for ever.
    """

    zone: tzinfo | None
    name: str | None
    most: int | None
    retained: timedelta | None

    @classmethod
    def of(cls, options: Mapping[str, str]) -> _BatchTags:
        """The tags that a table's options ask for.

        Raises:
            SchemaError: An option has an invalid value.
        """
        zone = options.get("sink.process-time-zone")
        name = options.get("tag.batch.customized-name", "").strip() or None
        retained = _duration(options, "tag.default-time-retained")
        return cls(None if zone is None else _zone(zone), name, _most(options), retained)


@dataclass(frozen=True, slots=True)
class AutomaticTags:
    """When tags are created, and how many stay.

    Args:
        zone: The time zone of names; that of this process if None.
        by_watermark: Whether a snapshot's watermark counts, not the time of its commit.
        period: The time between tags.
        form: Their names, for `strftime`.
        delay: How long after its period a tag is created.
        most: How many stay; None for all.
        retained: How long each stays; None for ever.
        completes: Whether no period is left out.
        expires: Whether tags whose time is over are deleted.
    """

    zone: tzinfo | None
    by_watermark: bool
    period: timedelta
    form: str
    delay: timedelta
    most: int | None
    retained: timedelta | None
    completes: bool
    expires: bool

    @classmethod
    def of(cls, options: Mapping[str, str]) -> AutomaticTags | None:
        """The tags that a table's options ask for; None if they ask for none.

        Raises:
            SchemaError: An option has an invalid value.
            UnsupportedError: An option has an unknown choice.
        """
        mode = _mode(options)
        if mode is _Mode.BATCH:
            _BatchTags.of(options)
        if mode in (_Mode.NONE, _Mode.BATCH):
            return None
        own = parse_choice("tag.creation-period", options.get("tag.creation-period", "daily"), _Period)
        written = parse_choice("tag.period-formatter", options.get("tag.period-formatter", "with_dashes"), _Form)
        period = _duration(options, "tag.creation-period-duration")
        if period is not None:
            form = "%Y%m%d%H%M"
        elif own is _Period.DAILY:
            form = _DAYS.get(written, "%Y%m%d")
        else:
            form = _HOURS.get(written, "%Y%m%d%H") if own is _Period.HOURLY else "%Y-%m-%d %H"
        period = _PERIODS[own] if period is None else period
        delay = _duration(options, "tag.creation-delay") or timedelta()
        if delay >= period:
            raise SchemaError(f"table option tag.creation-delay must be shorter than a period of {period}")
        by_watermark = mode is _Mode.WATERMARK
        zone = options.get("sink.watermark-time-zone", "UTC") if by_watermark else options.get("sink.process-time-zone")
        return cls(
            None if zone is None else _zone(zone),
            by_watermark,
            period,
            form,
            delay,
            _most(options),
            _duration(options, "tag.default-time-retained"),
            parse_bool("tag.automatic-completion", options.get("tag.automatic-completion", "false")),
            parse_bool("tag.time-expire-enabled", options.get("tag.time-expire-enabled", "true")),
        )

    def moment(self, snapshot: Snapshot) -> datetime | None:
        """The time of a snapshot, without a zone; None if it has no watermark."""
        millis = snapshot.watermark if self.by_watermark else snapshot.time_millis
        if millis is None or abs(millis) > 1 << 47:
            return None
        return datetime.fromtimestamp(millis / 1000, UTC).astimezone(self.zone).replace(tzinfo=None)

    def period_of(self, name: str) -> datetime | None:
        """The time that a tag's name says; None if it was not created automatically."""
        with suppress(ValueError):
            found = datetime.strptime(name, self.form)
            return found if found.strftime(self.form) == name else None
        return None

    def before(self, moment: datetime) -> datetime:
        """The last period that was over at a time."""
        return _EPOCH + (moment - _EPOCH) // self.period * self.period - self.period


def _mode(options: Mapping[str, str]) -> _Mode:
    return parse_choice("tag.automatic-creation", options.get("tag.automatic-creation", "none"), _Mode)


def _most(options: Mapping[str, str]) -> int | None:
    most = options.get("tag.num-retained-max")
    return None if most is None else parse_int("tag.num-retained-max", most)


def _duration(options: Mapping[str, str], name: str) -> timedelta | None:
    text = options.get(name, "").strip()
    return timedelta(milliseconds=parse_duration_ms(name, text)) if text else None


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError):
        raise SchemaError(f"table option sink.…-time-zone={name} is not a time zone") from None


def tag_automatically(state: PaimonState) -> None:
    """Create the tags that are due after a commit, and delete those that are too many or too old.

    Raises:
        SkerryError: A tag could not be created or deleted; the next commit tries again.
    """
    if _mode(state.schema.options) is _Mode.BATCH:
        _tag_batch(state)
        return
    rule = AutomaticTags.of(state.schema.options)
    if rule is None or state.snapshot is None:
        return
    known = sorted(_automatic(state, rule), key=lambda tag: tag.snapshot.id)
    period = rule.period_of(known[-1].name) if known else None
    due = None if period is None else period + rule.period
    first = known[-1].snapshot.id + 1 if known else 0
    for number in snapshot_ids(state.storage, state.paths):
        snapshot = find_snapshot(state.storage, state.paths, number) if number >= first else None
        moment = None if snapshot is None else rule.moment(snapshot)
        if snapshot is None or moment is None or (due is not None and moment - rule.delay < due + rule.period):
            continue
        period = due if rule.completes and due is not None else rule.before(moment)
        name = period.strftime(rule.form)
        with suppress(AlreadyExistsError):  # another writer was faster
            tag = create_tag(state.storage, state.paths, name, snapshot, time_retained=rule.retained)
            note_tag_created(state, name)
            known.append(tag)
        due = period + rule.period
    surplus = [] if rule.most is None else known[: max(len(known) - rule.most, 0)]
    for tag in {tag.name: tag for tag in (*surplus, *(_over(state) if rule.expires else ()))}.values():
        with suppress(NotFoundError):
            delete_tag(state.storage, state.paths, tag.name)
            note_tag_deleted(state, tag.name)


def _tag_batch(state: PaimonState) -> None:
    """Move the tag of the day, or the one with the name that the options say, to a batch commit."""
    rule, snapshot = _BatchTags.of(state.schema.options), state.snapshot
    if snapshot is None or snapshot.commit_identifier != BATCH_COMMIT_IDENTIFIER:
        return
    day = datetime.fromtimestamp(snapshot.time_millis / 1000, UTC).astimezone(rule.zone)
    name = rule.name or f"{_BATCH_TAG}{day:%Y-%m-%d}"
    with suppress(NotFoundError):
        delete_tag(state.storage, state.paths, name)
    create_tag(state.storage, state.paths, name, snapshot, time_retained=rule.retained)
    note_tag_created(state, name)
    known = sorted(known for known in tag_names(state.storage, state.paths) if known.startswith(_BATCH_TAG))
    for name in known[: max(len(known) - rule.most, 0)] if rule.most is not None else ():
        with suppress(NotFoundError):
            delete_tag(state.storage, state.paths, name)
            note_tag_deleted(state, name)


def _automatic(state: PaimonState, rule: AutomaticTags) -> Iterator[Tag]:
    for name in tag_names(state.storage, state.paths):
        if rule.period_of(name) is not None:
            tag = find_tag(state.storage, state.paths, name)
            if tag is not None:
                yield tag


def _over(state: PaimonState) -> Iterator[Tag]:
    """The tags whose time is over."""
    for name in tag_names(state.storage, state.paths):
        tag = find_tag(state.storage, state.paths, name)
        if tag is None or tag.create_time is None or tag.time_retained is None:
            continue
        if datetime.now() - tag.create_time > tag.time_retained:
            yield tag


# Success files -------------------------------------------------------------------------------------------------------


def success_folder(tags: str) -> str:
    """The folder of success files in a folder of tags."""
    return join(tags, "tag-success-file")


def note_tag_created(state: PaimonState, name: str) -> None:
    """Tell others of a new tag by a success file, if the table's options ask for that."""
    if parse_bool(_SUCCESS, state.schema.options.get(_SUCCESS, "false")):
        now = int(time.time() * 1000)
        data = json.dumps({"creationTime": now, "modificationTime": now}).encode()
        state.storage.write(_success_file(state, name), data, overwrite=True)


def note_tag_deleted(state: PaimonState, name: str) -> None:
    """Delete the success file of a tag."""
    if parse_bool(_SUCCESS, state.schema.options.get(_SUCCESS, "false")):
        state.storage.delete([_success_file(state, name)])


def _success_file(state: PaimonState, name: str) -> str:
    return join(success_folder(state.paths.tags), f"{name}_SUCCESS")
