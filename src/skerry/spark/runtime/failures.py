"""Errors that end a Spark job, found again on the driver as the errors of skerry that they were.

What fails on an executor arrives as text inside other errors' text. So an error is written into its message between
marks, as JSON and never as a pickle: the text of a row may stand there too.
"""

from __future__ import annotations

import base64
import contextlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as sf

import skerry.errors
from skerry.errors import SchemaError, SkerryError

__all__ = ["RefusedRecordError", "TaskError", "error_of", "original_errors", "refuse"]

_MARK = re.compile(r"<skerry-error ([A-Za-z0-9+/=\s]+)>")
_FIELDS = ("message", "location", "offset", "rule")


class TaskError(Exception):
    """Raised in a Python worker in place of an error of ours, which its text carries.

    Args:
        error: The error; anything in it that is neither text nor number is left behind.
    """

    def __init__(self, error: SkerryError) -> None:
        state = {"type": type(error).__name__, **{name: getattr(error, name) for name in _FIELDS}}
        text = base64.b64encode(json.dumps(state, default=str).encode()).decode()
        super().__init__(f"{error} <skerry-error {text}>")


class RefusedRecordError(SchemaError):
    """A record of a source file that does not fit, before anyone has looked where it stands and why.

    Args:
        message: What is wrong.
        location: The file.
        record: The record's text, if its format does not fit.
        column: The column, if a value does not fit.
        value: The value as text.
    """

    def __init__(
        self,
        message: str = "",
        *,
        location: str | None = None,
        record: str | None = None,
        column: str | None = None,
        value: str | None = None,
    ) -> None:
        super().__init__(message, location=location)
        self.record = record
        self.column = column
        self.value = value


def refuse(**state: Column | str) -> Column:
    """A column that ends the job with a `SchemaError` when a row evaluates it.

    Args:
        state: What `RefusedRecordError` takes, constant or computed from the row.
    """
    entries = [(value if isinstance(value, Column) else sf.lit(value)).alias(key) for key, value in state.items()]
    text = sf.base64(sf.to_json(sf.struct(*entries)).cast("binary"))
    return sf.raise_error(sf.concat(sf.lit("<skerry-error "), text, sf.lit(">")))


def error_of(failure: BaseException) -> SkerryError | None:
    """The error of ours that ended a Spark job; None if it was none."""
    found = _MARK.search(str(failure))
    if found is None:
        return None
    state: Mapping[str, Any] = json.loads(base64.b64decode(found[1]))
    kind = state.get("type")
    if kind is None:
        return RefusedRecordError(
            state.get("message", "the record does not fit the schema"),
            location=state.get("location"),
            record=state.get("record"),
            column=state.get("column"),
            value=state.get("value"),
        )
    context = {name: state[name] for name in ("location", "offset", "rule") if state.get(name) is not None}
    return _CLASSES.get(kind, SkerryError)(str(state.get("message", "")), **context)


_CLASSES = {name: class_ for name, class_ in vars(skerry.errors).items() if name in skerry.errors.__all__}


@contextlib.contextmanager
def original_errors() -> Iterator[None]:
    """Raise the error of ours that ended a Spark job instead of Spark's; leave any other as it is."""
    try:
        yield
    except SkerryError:
        raise
    except Exception as failure:
        error = error_of(failure)
        if error is None:
            raise
        raise error from None
