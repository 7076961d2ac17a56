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
        self.lookup = jvm.java.lang.invoke.MethodHandles.publicLookup()
        byte_buffer, sketch = "java.nio.ByteBuffer", "org.apache.datasketches.theta.UpdateSketch"
        self._update = self._virtual(sketch, "update", "org.apache.datasketches.theta.UpdateReturnState", byte_buffer)
        parse_hex = self._virtual("java.util.HexFormat", "parseHex", "[B", "java.lang.CharSequence")
        self.parse_hex = self.function(parse_hex.bindTo(jvm.java.util.HexFormat.of()))
        self.wrap = self.function(self.static(byte_buffer, "wrap", byte_buffer, "[B"))

    def load(self, name: str) -> Any:
        """A class by name, those of jars that Spark added included."""
        loader = self.jvm.java.lang.Thread.currentThread().getContextClassLoader()
        return self.jvm.java.lang.Void.TYPE if name == "void" else self.jvm.java.lang.Class.forName(name, True, loader)

    def method_type(self, result: str, *arguments: str) -> Any:
        """The type of a method."""
        types = self.jvm.java.util.ArrayList()
        for argument in arguments:
            types.add(self.load(argument))
        return self.jvm.java.lang.invoke.MethodType.methodType(self.load(result), types)

    def _virtual(self, owner: str, name: str, result: str, *arguments: str) -> Any:
        return self.lookup.findVirtual(self.load(owner), name, self.method_type(result, *arguments))

    def static(self, owner: str, name: str, result: str, *arguments: str) -> Any:
        """A static method as a handle."""
        return self.lookup.findStatic(self.load(owner), name, self.method_type(result, *arguments))

    def _interface(self, name: str, handle: Any) -> Any:
        return self.jvm.java.lang.invoke.MethodHandleProxies.asInterfaceInstance(self.load(name), handle)

    def function(self, handle: Any) -> Any:
        """A handle as a `java.util.function.Function`."""
        return self._interface("java.util.function.Function", handle)

    def feed(self, sketch: Any, lines: Iterable[str], *steps: Any) -> Any:
        """Send each line through functions that end in a `ByteBuffer`, and feed that to an update sketch."""
        text = "".join(f"{line}\n" for line in lines)
        stream = self.jvm.java.io.BufferedReader(self.jvm.java.io.StringReader(text)).lines()
        for step in steps:
            stream = stream.map(step)
        stream.forEachOrdered(self._interface("java.util.function.Consumer", self._update.bindTo(sketch)))
        return sketch

    def update(self, sketch: Any, values: Iterable[bytes]) -> Any:
        """Feed byte strings to an update sketch."""
        return self.feed(sketch, (value.hex() for value in values), self.parse_hex, self.wrap)

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
