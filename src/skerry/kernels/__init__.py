"""Hot loops in machine code: plain Python functions, compiled by numba and LLVM, loaded without numba.

A kernel is in the package of the format it serves and is marked with `kernel`. A wheel has the kernels of each module
as LLVM's bitcode; from it, or from what numba compiles where there is none, LLVM makes an object file once per machine,
which is kept on disk. Later processes load it through LLVM alone: importing numba takes about a second, loading an
object file takes milliseconds. `warm_up` compiles or loads all kernels of the package, for example in Spark's daemon
process before it forks its workers.
"""

from __future__ import annotations

from skerry.kernels.cache import cache_directory, is_trusted, user_cache_directory
from skerry.kernels.decorator import kernel
from skerry.kernels.intrinsics import (
    byte_swap,
    load,
    load_u16,
    load_u32,
    load_u64,
    multiply_high,
    rotate_left,
    store,
)
from skerry.kernels.loading import warm_up
from skerry.kernels.registry import Kernel

__all__ = [
    "Kernel",
    "byte_swap",
    "cache_directory",
    "is_trusted",
    "kernel",
    "load",
    "load_u16",
    "load_u32",
    "load_u64",
    "multiply_high",
    "rotate_left",
    "store",
    "user_cache_directory",
    "warm_up",
]
