"""Iceberg's Java manifest classes through Spark's JVM: readers and writers of manifests and manifest lists.

Some of them are private to their package, so that they are called by reflection. py4j hands a number to such a call as
Integer if it fits 32 bits, which reflection does not take for a `Long`: ids in tests are large for that reason.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from skerry.iceberg.manifests.manifest_list import ManifestContent
from skerry.iceberg.metadata.partition_spec import PartitionSpec
from skerry.iceberg.metadata.schema import Schema


class JavaIceberg:
    """Iceberg Java in a Spark session's JVM."""

    def __init__(self, spark: Any) -> None:
        self.gateway = spark.sparkContext._gateway
        self.jvm = spark._jvm
        self.iceberg = self.jvm.org.apache.iceberg
        self.io = self.iceberg.hadoop.HadoopFileIO(spark._jsc.hadoopConfiguration())

    def class_named(self, name: str) -> Any:
        loader = self.jvm.java.lang.Thread.currentThread().getContextClassLoader()
        return self.jvm.java.lang.Class.forName(name, True, loader)

    def invoke(self, class_name: str, method_name: str, target: Any, *arguments: Any) -> Any:
        """Call a method that is private to its package."""
        for method in self.class_named(class_name).getDeclaredMethods():
            if method.getName() == method_name and method.getParameterCount() == len(arguments):
                method.setAccessible(True)
                array = self.gateway.new_array(self.jvm.java.lang.Object, len(arguments))
                for index, argument in enumerate(arguments):
                    array[index] = argument
                return method.invoke(target, array)
        raise LookupError(method_name)

    def spec(self, schema: Schema, spec: PartitionSpec) -> Any:
        parsed = self.iceberg.SchemaParser.fromJson(json.dumps(schema.to_json()))
        return self.iceberg.PartitionSpecParser.fromJson(parsed, json.dumps(spec.to_json()))

    def specs(self, *specs: Any) -> Any:
        by_id = self.jvm.java.util.HashMap()
        for spec in specs:
            by_id.put(spec.specId(), spec)
        return by_id

    def read_list(self, path: Path) -> list[Any]:
        return list(self.invoke("org.apache.iceberg.ManifestLists", "read", None, self.io.newInputFile(str(path))))

    def write_list(
        self,
        path: Path,
        version: int,
        manifests: list[Any],
        *,
        snapshot_id: int,
        sequence_number: int,
        first_row_id: int,
    ) -> None:
        plaintext = self.iceberg.encryption.PlaintextEncryptionManager.instance()
        writer = self.invoke(
            "org.apache.iceberg.ManifestLists",
            "write",
            None,
            version,
            self.iceberg.Files.localOutput(str(path)),
            plaintext,
            snapshot_id,
            None,
            sequence_number,
            first_row_id if version >= 3 else None,
        )
        for manifest in manifests:
            writer.add(manifest)
        writer.close()

    def read_entries(self, manifest: Any, specs: Any) -> list[Any]:
        """All entries of a manifest, deleted ones too; copies, because Java's reader uses one object again."""
        read = "read" if manifest.content().name() == "DATA" else "readDeleteManifest"
        reader = getattr(self.iceberg.ManifestFiles, read)(manifest, self.io, specs)
        entries = self.invoke("org.apache.iceberg.ManifestReader", "entries", reader)
        iterator = entries.iterator()
        found = []
        while iterator.hasNext():
            found.append(iterator.next().copy())
        reader.close()
        return found

    def write_entries(
        self, path: Path, version: int, spec: Any, entries: list[Any], *, content: ManifestContent, snapshot_id: int
    ) -> Any:
        """Write entries as Java would; returns its manifest."""
        write = "write" if content is ManifestContent.DATA else "writeDeleteManifest"
        output = self.iceberg.Files.localOutput(str(path))
        writer = getattr(self.iceberg.ManifestFiles, write)(version, spec, output, snapshot_id)
        for entry in entries:
            file, status = entry.file(), entry.status().name()
            if status == "ADDED":
                writer.add(file)
            elif status == "EXISTING":
                numbers = (entry.dataSequenceNumber(), entry.fileSequenceNumber())
                writer.existing(file, entry.snapshotId(), *numbers)
            else:
                writer.delete(file, entry.dataSequenceNumber(), entry.fileSequenceNumber())
        writer.close()
        return writer.toManifestFile()

    def bytes(self, buffer: Any) -> bytes | None:
        """The content of a byte buffer."""
        return None if buffer is None else bytes(self.iceberg.util.ByteBuffers.toByteArray(buffer))

    def byte_map(self, values: Any) -> dict[int, bytes]:
        return {} if values is None else {key: self.bytes(values.get(key)) or b"" for key in values}
