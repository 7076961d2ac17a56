"""The rounds of 32-bit Murmur3, for kernels that hash as their table format requires.

Source: Austin Appleby, MurmurHash3_x86_32.
"""

from __future__ import annotations

from skerry.kernels import kernel

__all__ = ["MASK", "finish", "mix", "scramble"]

# All arithmetic is in signed 64 bits, masked to 32 after every step that can grow: the product of two 32-bit numbers
# may overflow, but its low 32 bits are correct.
MASK = 0xFFFFFFFF
_C1 = 0xCC9E2D51
_C2 = 0x1B873593


@kernel
def scramble(block: int) -> int:
    """The form in which a block, or the last bytes of a value, enters the state."""
    block = (block * _C1) & MASK
    block = ((block << 15) | (block >> 17)) & MASK
    return (block * _C2) & MASK


@kernel
def mix(state: int, block: int) -> int:
    """The state after a block of four bytes."""
    state = state ^ scramble(block)
    state = ((state << 13) | (state >> 19)) & MASK
    return (state * 5 + 0xE6546B64) & MASK


@kernel
def finish(state: int, length: int) -> int:
    """The final hash for a length in bytes."""
    state = state ^ length
    state = state ^ (state >> 16)
    state = (state * 0x85EBCA6B) & MASK
    state = state ^ (state >> 13)
    state = (state * 0xC2B2AE35) & MASK
    return state ^ (state >> 16)
