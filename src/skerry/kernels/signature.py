"""Signatures of kernels: which arguments one takes, and how Python values become its C arguments."""

from __future__ import annotations

import ctypes
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Argument", "Signature", "parse_signature"]


@dataclass(frozen=True, slots=True)
class _Scalar:
    """How a scalar type is passed from Python to C."""

    ctype: Any
    convert: Callable[[Any], Any]


_SCALARS: dict[str, _Scalar] = {
    "int8": _Scalar(ctypes.c_int8, operator.index),
    "int16": _Scalar(ctypes.c_int16, operator.index),
    "int32": _Scalar(ctypes.c_int32, operator.index),
    "int64": _Scalar(ctypes.c_int64, operator.index),
    "uint8": _Scalar(ctypes.c_uint8, operator.index),
    "uint16": _Scalar(ctypes.c_uint16, operator.index),
    "uint32": _Scalar(ctypes.c_uint32, operator.index),
    "uint64": _Scalar(ctypes.c_uint64, operator.index),
    "float32": _Scalar(ctypes.c_float, float),
    "float64": _Scalar(ctypes.c_double, float),
}
_SIGNATURE = re.compile(r"\s*(?P<result>\w+)\s*\((?P<arguments>.*)\)\s*", re.DOTALL)
_ARGUMENT = re.compile(r"(?P<out>out\s+)?(?P<type>\w+)(?P<dims>\[(?:\s*:\s*,)*\s*::1\s*\])?")


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a kernel.

    Args:
        type_name: Scalar or element type, by numba's (and NumPy's) name.
        ndim: Dimensions of a C-contiguous array, 0 for a scalar.
        is_out: Whether the kernel may write to the array.
    """

    type_name: str
    ndim: int
    is_out: bool

    def c_types(self) -> list[Any]:
        """C types of the machine code's parameters: a scalar, or a pointer and one length per dimension."""
        if self.ndim == 0:
            return [_SCALARS[self.type_name].ctype]
        return [ctypes.c_void_p] + [ctypes.c_int64] * self.ndim


@dataclass(frozen=True, slots=True)
class Signature:
    """What a kernel takes and returns."""

    arguments: tuple[Argument, ...]
    result: str

    def c_function(self) -> Any:
        """The ctypes prototype of the machine code; calls through it release the GIL."""
        result = None if self.result == "void" else _SCALARS[self.result].ctype
        return ctypes.CFUNCTYPE(result, *[c_type for argument in self.arguments for c_type in argument.c_types()])

    def converters(self) -> tuple[Callable[[Any, list[Any]], None], ...]:
        """One function per argument that checks a Python value and appends its C values to a list."""
        return tuple(_converter(argument) for argument in self.arguments)


def parse_signature(text: str) -> Signature:
    """Parse a signature in numba's notation, arrays marked `out` where the kernel writes.

    Args:
        text: For example `"int64(uint8[::1], out uint64[:, ::1], int64)"`; `void` for no result.

    Returns:
        The parsed signature.

    Raises:
        TypeError: The text is not a signature, or names a type that kernels do not take.
    """
    match = _SIGNATURE.fullmatch(text)
    if match is None or match["result"] not in (*_SCALARS, "void"):
        raise TypeError(f"not a kernel signature: {text!r}")
    arguments = []
    for part in re.split(r",(?![^\[]*\])", match["arguments"]) if match["arguments"].strip() else []:
        found = _ARGUMENT.fullmatch(part.strip())
        if found is None or found["type"] not in _SCALARS or (found["out"] and not found["dims"]):
            raise TypeError(f"not an argument of a kernel: {part.strip()!r} in {text!r}")
        ndim = found["dims"].count(",") + 1 if found["dims"] else 0
        arguments.append(Argument(found["type"], ndim, found["out"] is not None))
    return Signature(tuple(arguments), match["result"])


def _converter(argument: Argument) -> Callable[[Any, list[Any]], None]:
    if argument.ndim == 0:
        convert = _SCALARS[argument.type_name].convert

        def add_scalar(value: Any, into: list[Any]) -> None:
            into.append(convert(value))

        return add_scalar

    dtype, ndim, is_out = np.dtype(argument.type_name), argument.ndim, argument.is_out

    def add_array(value: Any, into: list[Any]) -> None:
        if type(value) is not np.ndarray or value.dtype != dtype or value.ndim != ndim:
            found = f"{value.dtype}[{value.ndim}d]" if isinstance(value, np.ndarray) else type(value).__name__
            raise TypeError(f"kernel takes {dtype}[{ndim}d], not {found}")
        flags = value.flags
        if not flags.c_contiguous or (is_out and not (flags.aligned and flags.writeable)):
            needed = "contiguous, aligned and writable" if is_out else "contiguous"
            raise TypeError(f"kernel takes an array that is {needed}")
        # Bytes of files and of foreign Arrow buffers begin anywhere; the pointer keeps the copy alive during the call.
        into.append(value.ctypes.data if flags.aligned else value.copy().ctypes.data_as(ctypes.c_void_p))
        into.extend(value.shape)

    return add_array
