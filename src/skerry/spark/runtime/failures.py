"""Transport of skerry's errors from executors to the driver, through the text of Spark's errors.

A failure on an executor arrives as part of other errors' text. An error is therefore written into its message between
marks, as JSON and never as a pickle: the text may also contain values of rows.
"""

from __future__ import annotations

import base64
import contextlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from pyspark.errors import AnalysisException, ParseException
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import Column
from pyspark.sql import functions as sf

import skerry.errors
from skerry.errors import SchemaError, SkerryError

__all__ = ["RefusedRecordError", "TaskError", "error_of", "in_one_line", "original_errors", "refuse"]

_MARK = re.compile(r"<skerry-error ([A-Za-z0-9+/=\s]+)>")
_PLAN = ";\n"
"""What stands between the message of an analysis and the plan."""
_FIELDS = ("message", "location", "offset", "rule")


class TaskError(Exception):
    """Raised in a Python worker instead of an error of skerry, which its text contains.

    Args:
        error: The error; attributes that are neither text nor number are dropped.
    """

    def __init__(self, error: SkerryError) -> None:
        state = {"type": type(error).__name__, **{name: getattr(error, name) for name in _FIELDS}}
        text = base64.b64encode(json.dumps(state, default=str).encode()).decode()
        super().__init__(f"{error} <skerry-error {text}>")


class RefusedRecordError(SchemaError):
    """A record of a source file that does not fit, before its position and the cause are known.

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
    """A column that ends the job with a `SchemaError` when it is evaluated for a row.

    Args:
        state: Arguments of `RefusedRecordError`, constant or computed from the row.
    """
    entries = [(value if isinstance(value, Column) else sf.lit(value)).alias(key) for key, value in state.items()]
    text = sf.base64(sf.to_json(sf.struct(*entries)).cast("binary"))
    return sf.raise_error(sf.concat(sf.lit("<skerry-error "), text, sf.lit(">")))


def error_of(failure: BaseException) -> SkerryError | None:
    """The error of skerry that ended a Spark job; None for other errors."""
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
    """Raise the error of skerry that ended a Spark job instead of Spark's; other errors are unchanged."""
    try:
        yield
    except SkerryError:
        raise
    except Exception as failure:
        error = error_of(failure)
        if error is None:
            raise
        raise error from None


@contextlib.contextmanager
def in_one_line() -> Iterator[None]:
    """Leave the plan out of an error of Spark's analysis: it names relations that no one has written.

    Where a text cannot be parsed, the message shows the place in the text and stays as it is.
    """
    try:
        yield
    except AnalysisException as error:
        if isinstance(error, CapturedException) and not isinstance(error, ParseException):
            state = error.__dict__  # its class and condition stay
            state["_desc"] = " ".join(state["_desc"].partition(_PLAN)[0].split())
        raise
