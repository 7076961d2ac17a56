"""Split-block Bloom filters: which values a field certainly lacks.

A filter is blocks of eight words of 32 bits. The upper half of a value's hash chooses the block, the lower half one bit
in each of its words.

Spec: docs/formats/amudai.md § 5.5; Amudai book, chapter 6, Split-Block Bloom Filters; Parquet spec, BloomFilter.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from skerry.amudai.messages import SplitBlockBloomFilter
from skerry.amudai.statistics.xxh3 import hash_values
from skerry.errors import FormatError

__all__ = ["HASH_ALGORITHM", "HASH_SEED", "MAX_VALUES", "BloomFilter"]

HASH_ALGORITHM: Final = "xxh3_64"
HASH_SEED: Final = 0x4D75646169424646
TARGET_FPP: Final = 0.01
MAX_VALUES: Final = 1024
"""A field with more distinct values has no filter, as in shards of the reference implementation."""

_BLOCK_BYTES: Final = 32
_RULE: Final = "docs/formats/amudai.md § 5.5"
_SALTS: Final = np.array(
    [0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31], np.uint32
)
_Hashes = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True, eq=False)
class BloomFilter:
    """A filter over hashes.

    Args:
        blocks: uint32[num_blocks, 8].
        num_values: Distinct values in it.
        target_fpp: Share of absent values that it was made to let through.
        hash_seed: Seed of the xxh3_64 of the values' bytes.
    """

    blocks: npt.NDArray[np.uint32]
    num_values: int
    target_fpp: float = TARGET_FPP
    hash_seed: int = HASH_SEED

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BloomFilter) and self.to_message() == other.to_message()

    __hash__ = None  # type: ignore[assignment]

    @classmethod
    def build(cls, hashes: _Hashes, target_fpp: float = TARGET_FPP) -> BloomFilter:
        """Make the filter of some values.

        Args:
            hashes: uint64[n], n > 0: the distinct xxh3_64 of the values with `HASH_SEED`.
            target_fpp: Share of absent values that it may let through.
        """
        count = len(hashes)
        bits_per_value = math.ceil(math.ceil(-count * math.log(target_fpp) / math.log(2) ** 2) / count)
        size = max(1, -(-(bits_per_value * count // 8) // _BLOCK_BYTES))
        made = cls(np.zeros((size, 8), np.uint32), count, target_fpp)
        block, bits = made._bits(hashes)
        np.bitwise_or.at(made.blocks, block, bits)
        return made

    def may_contain(self, values: list[bytes]) -> npt.NDArray[np.bool_]:
        """Which of some values may be there.

        Returns:
            bool[n]; false is certain.
        """
        offsets = np.zeros(len(values) + 1, np.int64)
        np.cumsum([len(value) for value in values], out=offsets[1:])
        block, bits = self._bits(hash_values(np.frombuffer(b"".join(values), np.uint8), offsets, self.hash_seed))
        return np.asarray(((self.blocks[block] & bits) == bits).all(axis=1))

    def _bits(self, hashes: _Hashes) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint32]]:
        """The block of each hash, and its bits in the block's words."""
        upper = hashes >> np.uint64(32)
        block = (upper * np.uint64(len(self.blocks)) >> np.uint64(32)).astype(np.int64)
        lower = hashes.astype(np.uint32)
        return block, np.uint32(1) << (lower[:, None] * _SALTS >> np.uint32(27))

    def to_message(self) -> SplitBlockBloomFilter:
        """The message that shards keep."""
        return SplitBlockBloomFilter(
            num_blocks=len(self.blocks),
            target_fpp=self.target_fpp,
            num_values=self.num_values,
            hash_algorithm=HASH_ALGORITHM,
            hash_seed=self.hash_seed,
            data=self.blocks.astype("<u4").tobytes(),
        )

    @classmethod
    def from_message(cls, message: SplitBlockBloomFilter, *, location: str | None = None) -> BloomFilter | None:
        """Read a message of a shard.

        Returns:
            The filter; None if its values were hashed in a way unknown here.

        Raises:
            FormatError: The number of blocks is not that of the data.
        """
        if message.hash_algorithm != HASH_ALGORITHM:
            return None
        if message.num_blocks < 1 or message.num_blocks * _BLOCK_BYTES != len(message.data):
            raise FormatError(
                f"a Bloom filter of {message.num_blocks} blocks has {len(message.data)} bytes, expected at least one "
                f"block of {_BLOCK_BYTES}",
                location=location,
                rule=_RULE,
            )
        blocks = np.frombuffer(message.data, "<u4").reshape(-1, 8)
        return cls(blocks, message.num_values, message.target_fpp, message.hash_seed)
