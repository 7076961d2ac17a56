"""A data file that was written, and what was sampled of it on the way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from skerry.table.files.data_file import DataFile

if TYPE_CHECKING:
    from skerry.table.statistics.row_sample import RowSample
    from skerry.theta import Sample

__all__ = ["WrittenFile"]


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A newly written data file with one sample of hashes per sketched column; small when pickled.

    Args:
        data_file: The file and its metrics.
        samples: By field id.
        rows: Some of its rows; None if none were sampled.
        schema_id: The schema by which its values were hashed; None if that of the operation.
    """

    data_file: DataFile
    samples: Mapping[int, Sample] = field(default_factory=dict)
    rows: RowSample | None = None
    schema_id: int | None = None
