"""Reading of metadata files: PyIceberg does it for its catalogs, but its errors do not name the file."""

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
from skerry.iceberg.metadata import default_values  # noqa: F401, extends PyIceberg's parsing
from skerry.iceberg.metadata.file_io import last_opened

__all__ = ["check_metadata", "metadata_errors", "unreadable"]

# PyIceberg's messages about an unsupported type, such as variant.
_UNKNOWN_TYPE = re.compile(r"(?:Unsupported field type: |Could not parse )'?([a-z]+)")
# Errors that PyIceberg raises for the bytes of a metadata file: of its models, its checks, JSON, text and gzip.
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
    """Read a metadata file before a catalog refers to it; a REST catalog's server does so itself.

    Raises:
        FormatError: The file is not table metadata.
        NotFoundError: It is missing.
        UnsupportedError: Its format version is not supported.
    """
    if isinstance(catalog, MetastoreCatalog):
        with metadata_errors():
            FromInputFile.table_metadata(catalog._load_file_io(location=location).new_input(location))


@contextmanager
def metadata_errors() -> Iterator[None]:
    """Add the metadata file to errors that PyIceberg raises while reading it.

    Raises:
        FormatError: The file is not table metadata.
        NotFoundError: It is missing.
        UnsupportedError: Its format version is not supported.
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
        raise unreadable(error, location) from error
    finally:
        last_opened.reset(token)


def unreadable(error: Exception, location: str) -> SkerryError:
    """The error of a metadata file that PyIceberg cannot read."""
    if isinstance(error, FileNotFoundError):
        return NotFoundError("the table's metadata file is missing", location=location)
    cause = error if isinstance(error, ModelError) else error.__cause__
    if isinstance(cause, ModelError):
        first = cause.errors(include_url=False, include_input=False)[0]
        if first["type"] == "union_tag_invalid":
            return UnsupportedError(
                f"format version {first['ctx']['tag']} is not supported; supported are 1, 2 and 3",
                location=location,
                rule="Iceberg spec, Table Metadata Fields, `format-version`",
            )
        where = ".".join(str(part) for part in first["loc"])
        problem = f"{where + ': ' if where else ''}{first['msg']}"
    else:
        problem = f"{type(error).__name__}: {error}"
    if type_ := _UNKNOWN_TYPE.search(problem):
        return UnsupportedError(f"columns of type {type_[1]} are not supported", location=location)
    return FormatError(f"this is not table metadata: {problem}", location=location)
