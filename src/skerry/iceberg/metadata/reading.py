"""Reading metadata files: PyIceberg does it for its catalogs, and its errors do not tell which file they are about."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

from pydantic import ValidationError as ModelError
from pyiceberg.catalog import Catalog, MetastoreCatalog
from pyiceberg.exceptions import ValidationError
from pyiceberg.serializers import FromInputFile

from skerry.errors import FormatError, NotFoundError, SkerryError, UnsupportedError
from skerry.iceberg.metadata import default_values  # noqa: F401, by which PyIceberg reads more of them
from skerry.iceberg.metadata.file_io import last_opened

__all__ = ["check_metadata", "metadata_errors"]

# How PyIceberg tells of a type that it does not know, such as variant.
_UNKNOWN_TYPE = re.compile(r"(?:Unsupported field type: |Could not parse )'?([a-z]+)")
# What PyIceberg raises on the bytes of a metadata file: its models, its own checks, JSON, text and gzip.
_UNREADABLE = (
    ValidationError,
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    RecursionError,
    EOFError,
    gzip.BadGzipFile,
    zlib.error,
    FileNotFoundError,
)


def check_metadata(catalog: Catalog, location: str) -> None:
    """Read a metadata file before a catalog points at it; a REST catalog's server does so itself.

    Raises:
        FormatError: The file is no table metadata.
        NotFoundError: It is missing.
        UnsupportedError: It is of a format version that is not known.
    """
    if isinstance(catalog, MetastoreCatalog):
        with metadata_errors():
            FromInputFile.table_metadata(catalog._load_file_io(location=location).new_input(location))


@contextmanager
def metadata_errors() -> Iterator[None]:
    """Name the metadata file in what PyIceberg raises while it reads one.

    Raises:
        FormatError: The file is no table metadata.
        NotFoundError: It is missing.
        UnsupportedError: It is of a format version that is not known.
    """
    token = last_opened.set(None)
    try:
        yield
    except SkerryError:
        raise
    except _UNREADABLE as error:
        location = last_opened.get()
        if location is None:
            raise
        raise _refusal(error, location) from error
    finally:
        last_opened.reset(token)


def _refusal(error: Exception, location: str) -> SkerryError:
    if isinstance(error, FileNotFoundError):
        return NotFoundError("the table's metadata file is missing", location=location)
    cause = error if isinstance(error, ModelError) else error.__cause__
    if isinstance(cause, ModelError):
        first = cause.errors(include_url=False, include_input=False)[0]
        if first["type"] == "union_tag_invalid":
            return UnsupportedError(
                f"format version {first['ctx']['tag']} is not supported; there are 1, 2 and 3",
                location=location,
                rule="Iceberg spec, Table Metadata Fields, `format-version`",
            )
        where = ".".join(str(part) for part in first["loc"])
        problem = f"{where + ': ' if where else ''}{first['msg']}"
    else:
        problem = f"{type(error).__name__}: {error}"
    if type_ := _UNKNOWN_TYPE.search(problem):
        return UnsupportedError(f"columns of type {type_[1]} are not supported", location=location)
    return FormatError(f"this is no table metadata: {problem}", location=location)
