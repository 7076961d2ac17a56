"""Avro object container files, such as manifests of Iceberg and Paimon, decoded straight into columns.

`read_columns` decodes a file into an Arrow record batch, all of it or chosen fields; `write_container` makes a file
from records, `ContainerEncoder` piece by piece.

Spec: Avro spec.
"""

from __future__ import annotations

from skerry.avro.container import Header
from skerry.avro.encoding import decimal_bytes
from skerry.avro.reader import read_batches, read_columns, read_header
from skerry.avro.rewriting import rewrite_records
from skerry.avro.writer import ContainerEncoder, write_container

__all__ = [
    "ContainerEncoder",
    "Header",
    "decimal_bytes",
    "read_batches",
    "read_columns",
    "read_header",
    "rewrite_records",
    "write_container",
]
