"""One sketch of every compact form that Java writes: how each is made there, and what must be read from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from java_sketches import JavaSketches
from plain_theta import MAX_THETA, alpha

DATA = Path(__file__).parent / "data"
LG_K = 9  # Java's smallest Alpha sketch


@dataclass(frozen=True, slots=True)
class JavaForm:
    """A sketch of the numbers from `start` to `stop`, 8 bytes each, and how Java turns it into bytes."""

    start: int
    stop: int
    seed: int = 9001
    write: Callable[[JavaSketches, Any], bytes] = JavaSketches.bytes_of

    def values(self) -> list[bytes]:
        return [number.to_bytes(8, "little") for number in range(self.start, self.stop)]

    def java_bytes(self, java: JavaSketches) -> bytes:
        return self.write(java, java.sketch_of(self.values(), LG_K, self.seed))

    def expected(self) -> tuple[int, list[int]]:
        """Threshold and hashes by the plain twin."""
        return alpha(self.values(), 1 << LG_K, self.seed)


def unordered(java: JavaSketches, sketch: Any) -> bytes:
    return java.bytes_of(sketch, ordered=False)


def compressed(java: JavaSketches, sketch: Any) -> bytes:
    return bytes(sketch.compact(True, None).toByteArrayCompressed())


def nothing_in_common(java: JavaSketches, sketch: Any) -> bytes:
    """The intersection with another estimating sketch: no hashes, but a threshold, and so not empty."""
    intersection = java.theta.SetOperation.builder().buildIntersection()
    intersection.intersect(sketch)
    intersection.intersect(java.sketch_of(JavaForm(10_000, 13_000).values(), LG_K))
    return java.bytes_of(intersection.getResult())


FORMS = {
    "empty": JavaForm(0, 0),
    "single_item": JavaForm(0, 1),
    "exact": JavaForm(0, 100),
    "exact_unordered": JavaForm(0, 100, write=unordered),
    "exact_compressed": JavaForm(0, 100, write=compressed),
    "estimating": JavaForm(0, 3000),
    "estimating_unordered": JavaForm(0, 3000, write=unordered),
    "estimating_compressed": JavaForm(0, 3000, write=compressed),
    "other_seed": JavaForm(0, 100, seed=1234567),
}
NOTHING_IN_COMMON = JavaForm(0, 3000, write=nothing_in_common)


def path_of(name: str) -> Path:
    return DATA / f"{name}.theta"


def expected_of_nothing_in_common() -> tuple[int, list[int]]:
    other, _ = JavaForm(10_000, 13_000).expected()
    theta, _ = NOTHING_IN_COMMON.expected()
    assert min(theta, other) < MAX_THETA
    return min(theta, other), []
