"""Apache DataSketches' Java library, driven through py4j without a call per value.

Values cross as lines of hexadecimal digits; method handles made into functional interfaces feed them to a sketch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np


class JavaSketches:
    """The classes of `org.apache.datasketches.theta` in a JVM."""

    def __init__(self, jvm: Any) -> None:
        self.jvm = jvm
        self.theta = jvm.org.apache.datasketches.theta
        self._handles = jvm.java.lang.invoke.MethodHandles.publicLookup()
        self._to_interface = jvm.java.lang.invoke.MethodHandleProxies.asInterfaceInstance
        self._update = self._virtual(
            "org.apache.datasketches.theta.UpdateSketch",
            "update",
            "org.apache.datasketches.theta.UpdateReturnState",
            "java.nio.ByteBuffer",
        )
        parse = self._virtual("java.util.HexFormat", "parseHex", "[B", "java.lang.CharSequence")
        self._parse = self._interface("java.util.function.Function", parse.bindTo(jvm.java.util.HexFormat.of()))
        wrap = self._handles.findStatic(
            self._class("java.nio.ByteBuffer"), "wrap", self._method_type("java.nio.ByteBuffer", "[B")
        )
        self._wrap = self._interface("java.util.function.Function", wrap)

    def _class(self, name: str) -> Any:
        return self.jvm.java.lang.Class.forName(name)

    def _method_type(self, result: str, argument: str) -> Any:
        return self.jvm.java.lang.invoke.MethodType.methodType(self._class(result), self._class(argument))

    def _virtual(self, owner: str, name: str, result: str, argument: str) -> Any:
        return self._handles.findVirtual(self._class(owner), name, self._method_type(result, argument))

    def _interface(self, name: str, handle: Any) -> Any:
        return self._to_interface(self._class(name), handle)

    def update(self, sketch: Any, values: Iterable[bytes]) -> Any:
        """Feed byte strings to an update sketch as Iceberg does: wrapped in a `ByteBuffer` each."""
        lines = "".join(f"{value.hex()}\n" for value in values)
        reader = self.jvm.java.io.BufferedReader(self.jvm.java.io.StringReader(lines))
        consumer = self._interface("java.util.function.Consumer", self._update.bindTo(sketch))
        reader.lines().map(self._parse).map(self._wrap).forEachOrdered(consumer)
        return sketch

    def fresh(self, lg_k: int = 12, seed: int = 9001, family: str = "ALPHA") -> Any:
        """An update sketch."""
        builder = self.theta.UpdateSketch.builder().setNominalEntries(1 << lg_k).setSeed(seed)
        return builder.setFamily(getattr(self.jvm.org.apache.datasketches.common.Family, family)).build()

    def sketch_of(self, values: Iterable[bytes], lg_k: int = 12, seed: int = 9001, family: str = "ALPHA") -> Any:
        """An update sketch of byte strings."""
        return self.update(self.fresh(lg_k, seed, family), values)

    def bytes_of(self, sketch: Any, *, ordered: bool = True) -> bytes:
        """The compact form of any sketch."""
        return bytes(sketch.compact(ordered, None).toByteArray())

    def read(self, data: bytes, seed: int = 9001) -> Any:
        """A compact sketch from bytes, checked against the seed."""
        memory = self.jvm.org.apache.datasketches.memory.Memory.wrap(bytearray(data))
        return self.theta.CompactSketch.heapify(memory, seed)

    def union(self, sketches: Sequence[Any], lg_k: int = 12, seed: int = 9001) -> Any:
        """The compact union of sketches."""
        union = self.theta.SetOperation.builder().setNominalEntries(1 << lg_k).setSeed(seed).buildUnion()
        for sketch in sketches:
            union.union(sketch)
        return union.getResult()


def int_values(numbers: np.ndarray[Any, Any]) -> list[bytes]:
    """Numbers as their little-endian bytes."""
    return [number.tobytes() for number in numbers]
