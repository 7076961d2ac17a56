"""From Python functions to LLVM: the only module that imports numba, and only when something must be compiled."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

import llvmlite.binding as llvm
import numba
from numba.core import config
from numba.core.registry import CPUDispatcher

from skerry.kernels.cache import CompiledModule
from skerry.kernels.intrinsics import INTRINSICS
from skerry.kernels.lowering import LOWERED, input_array, output_array
from skerry.kernels.machine_code import entry_name, optimise
from skerry.kernels.signature import Argument, Signature

if TYPE_CHECKING:
    from skerry.kernels.decorator import Kernel

__all__ = ["compile_module"]

# No reference counts (so no allocation), no exception on division by zero.
_OPTIONS = {"_nrt": False, "error_model": "numpy", "no_cpython_wrapper": True, "no_cfunc_wrapper": True}


class _Callee(CPUDispatcher):  # type: ignore[misc]
    """What numba calls in place of a kernel that other kernels call.

    It is compiled once for each combination of types, where numba would do so for each literal number as well, and
    only to LLVM, where numba would make machine code that nobody runs.
    """

    def __init__(self, function: types.FunctionType) -> None:
        super().__init__(function, targetoptions={"nopython": True, **_OPTIONS})
        self._compiler._customize_flags = _without_machine_code

    def compile(self, signature: Any) -> Any:
        """Compile for some types of arguments."""
        return super().compile(tuple(numba.types.unliteral(argument) for argument in signature))

    def add_overload(self, compiled: Any) -> None:
        """Remember what was compiled, under a name of its own in place of an address."""
        key = object()
        self.targetctx.insert_user_function(key, compiled.fndesc, [compiled.library])
        self.overloads[tuple(compiled.signature.args)] = compiled._replace(entry_point=key)


def _without_machine_code(flags: Any) -> Any:
    flags.no_compile = True
    return flags


def compile_module(kernels: list[Kernel]) -> CompiledModule:
    """Compile kernels into one object file.

    Args:
        kernels: Kernels with a signature; those that they call are compiled with them.

    Returns:
        The object file, with one C function per kernel.

    Raises:
        TypeError: A kernel allocates or raises.
        numba.core.errors.NumbaError: Numba does not understand a kernel.
    """
    dispatchers: dict[Kernel, Any] = {}
    module = llvm.parse_assembly("")
    module.triple = llvm.get_process_triple()
    # Numba would optimise every function, and again wherever it is called: once, all together, is enough. And it would
    # compile nothing where the user has switched compiling off for functions of their own, and code that raises where
    # they have their own bounds checked.
    settings = config.OPT, config.DISABLE_JIT, config.BOUNDSCHECK
    config.OPT, config.DISABLE_JIT, config.BOUNDSCHECK = type(config.OPT)(0), 0, 0
    try:
        for kernel in kernels:
            module.link_in(_entry_module(kernel, dispatchers))
    finally:
        config.OPT, config.DISABLE_JIT, config.BOUNDSCHECK = settings
    return optimise(module, frozenset(entry_name(kernel.name) for kernel in kernels))


def _entry_module(kernel: Kernel, dispatchers: dict[Kernel, Any]) -> Any:
    """LLVM of one kernel behind a C function that takes pointers and lengths in place of arrays."""
    assert kernel.signature is not None
    compiled = numba.njit(_numba_signature(kernel.signature), **_OPTIONS)(_with_dispatchers(kernel, dispatchers))
    parameters, arguments = [], []
    for i, argument in enumerate(kernel.signature.arguments):
        lengths = [f"n{i}_{dim}" for dim in range(argument.ndim)]
        parameters += [f"a{i}", *lengths]
        array_of = "output_array" if argument.is_out else "input_array"
        arguments.append(f"{array_of}(a{i}, ({', '.join(lengths)},))" if lengths else f"a{i}")
    source = f"def entry({', '.join(parameters)}):\n    return function({', '.join(arguments)})\n"
    scope = {"input_array": input_array, "output_array": output_array, "function": compiled}
    exec(source, scope)
    c_types = [c_type for argument in kernel.signature.arguments for c_type in _c_types(argument)]
    result = numba.void if kernel.signature.result == "void" else _type(kernel.signature.result)
    callback = numba.cfunc(result(*c_types), _nrt=False, error_model="numpy")(scope["entry"])
    module = llvm.parse_assembly(callback.inspect_llvm())
    module.get_function(callback.native_name).name = entry_name(kernel.name)
    return module


def _with_dispatchers(kernel: Kernel, dispatchers: dict[Kernel, Any]) -> types.FunctionType:
    """The kernel's function with every kernel that it calls by name replaced by what numba can call."""
    function = kernel.py_func
    scope = dict(function.__globals__)
    for name, callee in kernel.callees().items():
        if callee not in dispatchers:
            dispatchers[callee] = _Callee(_with_dispatchers(callee, dispatchers))
        scope[name] = dispatchers[callee]
    for name in function.__code__.co_names:
        if (value := scope.get(name)).__hash__ is not None and value in INTRINSICS:
            scope[name] = LOWERED[INTRINSICS[value]]
    copy = types.FunctionType(function.__code__, scope, function.__name__, function.__defaults__)
    copy.__module__ = function.__module__
    return copy


def _type(name: str) -> Any:
    return getattr(numba.types, name)


def _c_types(argument: Argument) -> list[Any]:
    element = _type(argument.type_name)
    return [numba.types.CPointer(element), *[numba.intp] * argument.ndim] if argument.ndim else [element]


def _numba_signature(signature: Signature) -> Any:
    arguments = [
        numba.types.Array(_type(argument.type_name), argument.ndim, "C", readonly=not argument.is_out)
        if argument.ndim
        else _type(argument.type_name)
        for argument in signature.arguments
    ]
    result = numba.void if signature.result == "void" else _type(signature.result)
    return result(*arguments)
