"""Operations on a Paimon table, each stated so that it can be applied to any state of the table."""

from __future__ import annotations

from skerry.paimon.operations.append import AppendRows
from skerry.paimon.operations.change import CommitId, IndexChange, TableChange
from skerry.paimon.operations.overwrite import OverwritePartitions, ReplaceFiles

__all__ = ["AppendRows", "CommitId", "IndexChange", "OverwritePartitions", "ReplaceFiles", "TableChange"]
