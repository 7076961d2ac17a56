"""The `kernel` decorator: marks a function whose calls run as machine code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, overload

from skerry.kernels.loading import prepare
from skerry.kernels.registry import Kernel

__all__ = ["kernel"]


@overload
def kernel(signature: str) -> Callable[[Callable[..., Any]], Kernel]: ...


@overload
def kernel(signature: Callable[..., Any]) -> Kernel: ...


def kernel(signature: str | Callable[..., Any]) -> Kernel | Callable[[Callable[..., Any]], Kernel]:
    """Mark a function as a kernel: `@kernel("int64(uint8[::1], out uint64[::1])")`, or `@kernel` for an inner one.

    Args:
        signature: Argument and result types of a kernel called from Python. An inner kernel, called from kernels
            only, has none: numba infers its types at each call.

    Returns:
        The kernel; `py_func` is the plain function.

    Raises:
        TypeError: The signature is not understood.
    """
    if callable(signature):
        return Kernel(signature, None, prepare)  # type: ignore[arg-type]
    return lambda function: Kernel(function, signature, prepare)  # type: ignore[arg-type]
