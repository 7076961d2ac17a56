"""Kernels as numba compiles them with every index checked, under the mutants and with the arguments of `fuzz_run.py`.

What the package runs is the same code without checks, and its loads and stores at any byte of an array have none in
either case: here they have. An index outside of an array ends in an IndexError, which the harness takes for a failure.
"""

from __future__ import annotations

import sys
import types
from typing import Any

import fuzz_run
import numba
import numpy as np
from numba.extending import overload

from skerry.kernels.compiling import _numba_signature
from skerry.kernels.intrinsics import INTRINSICS
from skerry.kernels.lowering import LOWERED
from skerry.kernels.registry import Kernel

_OPTIONS = {"boundscheck": True, "error_model": "numpy"}
_LOADS = {"load_u16": 2, "load_u32": 4, "load_u64": 8}
_compiled: dict[Kernel, Any] = {}


def _width(unit: Any) -> int:
    return np.dtype(type(unit)).itemsize


@overload(_width)
def _width_of_type(unit):  # type: ignore[no-untyped-def]
    width = unit.bitwidth // 8
    return lambda unit: width


def _checked_load(name: str, width: int) -> Any:
    loaded = LOWERED[name]

    def load(data: Any, position: Any) -> Any:
        if position < 0 or position + width > len(data):
            raise IndexError("a load outside of the array")
        return loaded(data, position)

    return numba.njit(**_OPTIONS)(load)


def _checked_unit_load(unit: Any, data: Any, position: Any) -> Any:
    if position < 0 or position + _width(unit) > len(data):
        raise IndexError("a load outside of the array")
    return _load(unit, data, position)


def _checked_unit_store(unit: Any, data: Any, position: Any, value: Any) -> None:
    if position < 0 or position + _width(unit) > len(data):
        raise IndexError("a store outside of the array")
    _store(unit, data, position, value)


_load, _store = LOWERED["load"], LOWERED["store"]
_INTRINSICS: dict[str, Any] = {
    **LOWERED,
    **{name: _checked_load(name, width) for name, width in _LOADS.items()},
    "load": numba.njit(**_OPTIONS)(_checked_unit_load),
    "store": numba.njit(**_OPTIONS)(_checked_unit_store),
}


def _checked(kernel: Kernel) -> Any:
    """The kernel as numba compiles it with its indices checked, and all that it calls."""
    if kernel not in _compiled:
        function = kernel.py_func
        scope = kernel.scope(_checked)
        for name in function.__code__.co_names:
            if (value := scope.get(name)).__hash__ is not None and value in INTRINSICS:
                scope[name] = _INTRINSICS[INTRINSICS[value]]
        copy = types.FunctionType(function.__code__, scope, function.__name__, function.__defaults__)
        signatures = () if kernel.signature is None else (_numba_signature(kernel.signature),)
        _compiled[kernel] = numba.njit(*signatures, **_OPTIONS)(copy)
    return _compiled[kernel]


def _call(kernel: Kernel, *arguments: Any) -> Any:
    if kernel.signature is None:
        return kernel.py_func(*arguments)
    converted = [
        np.require(value, requirements="A") if wanted.ndim else np.dtype(wanted.type_name).type(value)
        for wanted, value in zip(kernel.signature.arguments, arguments, strict=True)
    ]
    return _checked(kernel)(*converted)


if __name__ == "__main__":
    Kernel.__call__ = _call  # type: ignore[method-assign]
    result = fuzz_run.main()
    print(f"{sum(kernel.signature is not None for kernel in _compiled)} kernels were called", flush=True)
    sys.exit(result)
