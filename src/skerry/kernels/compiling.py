"""From Python functions to bitcode: the only module that imports numba, and only when something must be compiled."""

from __future__ import annotations

import contextlib
import gc
import types
from collections.abc import Iterator
from typing import Any

import llvmlite.binding as llvm
import numba
from numba.core import config, typed_passes, untyped_passes
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase
from numba.core.compiler_machinery import PassManager
from numba.core.registry import CPUDispatcher

from skerry.kernels.intrinsics import INTRINSICS
from skerry.kernels.lowering import LOWERED, input_array, output_array
from skerry.kernels.machine_code import entry_name, simplify
from skerry.kernels.registry import Kernel
from skerry.kernels.signature import Argument, Signature

__all__ = ["compile_module"]

# No reference counts (so no allocation), no exception on division by zero.
_OPTIONS = {"_nrt": False, "error_model": "numpy", "no_cpython_wrapper": True, "no_cfunc_wrapper": True}

_PASSES = (
    untyped_passes.TranslateByteCode,
    untyped_passes.FixupArgs,
    untyped_passes.IRProcessing,
    untyped_passes.RewriteSemanticConstants,
    untyped_passes.DeadBranchPrune,
    untyped_passes.GenericRewrites,
    untyped_passes.ReconstructSSA,
    typed_passes.NopythonTypeInference,
    typed_passes.PreLowerStripPhis,
    typed_passes.IRLegalization,
    typed_passes.NativeLowering,
    typed_passes.NoPythonBackend,
)


class _Library(JITCodeLibrary):  # type: ignore[misc]
    """LLVM of one function, and which libraries it calls.

    Numba would link a function with all that it calls, again for each of its callers, optimise it each time, and turn
    it into machine code that never runs. `compile_module` links once, and `machine_code` does the rest.
    """

    def _optimize_functions(self, _module: Any) -> None:
        pass

    def finalize(self) -> None:
        """Leave everything as it is."""
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """No address: there is no machine code."""
        self._ensure_finalized()
        return 0

    def link_into(self, module: Any, linked: set[Any]) -> None:
        """Add the function, and what it needs, to a module that has some libraries already."""
        linked.add(self)
        module.link_in(self._final_module)
        for library in self._linking_libraries:
            if library not in linked:
                if isinstance(library, _Library):
                    library.link_into(module, linked)
                else:  # one of numba's own, with all that it calls; LLVM only takes what the module needs by now
                    module.link_in(library._get_module_for_linking(), preserve=True)


class _Compiler(CompilerBase):  # type: ignore[misc]
    """Numba's compiler up to LLVM, without the passes that find nothing in a kernel.

    These are for `with`, closures, exceptions made of values, lists, arrays computed as a whole, and for functions that
    numba inlines or compiles again for a number. They take a quarter of the time.
    """

    def __init__(self, typing_context: Any, target_context: Any, library: Any, *rest: Any) -> None:
        assert library is None
        super().__init__(typing_context, target_context, _Library(target_context.codegen(), "kernel"), *rest)

    def define_pipelines(self) -> list[Any]:
        """The one pipeline."""
        pipeline = PassManager("kernel")
        for step in _PASSES:
            pipeline.add_pass(step, step.__name__)
        pipeline.finalize()
        return [pipeline]


class _Dispatcher(CPUDispatcher):  # type: ignore[misc]
    """What numba calls instead of a kernel.

    It is compiled once for each combination of types, where numba would do so for each literal number and each member
    of an enumeration as well.
    """

    def __init__(self, function: types.FunctionType) -> None:
        super().__init__(function, targetoptions={"nopython": True, **_OPTIONS}, pipeline_class=_Compiler)
        self._compiler._customize_flags = _without_machine_code

    def compile(self, signature: Any) -> Any:
        """Compile for some types of arguments."""
        return super().compile(tuple(_widened(argument) for argument in signature))

    def add_overload(self, compiled: Any) -> None:
        """Remember what was compiled, under a name of its own instead of an address."""
        key = object()
        self.targetctx.insert_user_function(key, compiled.fndesc, [compiled.library])
        self.overloads[tuple(compiled.signature.args)] = compiled._replace(entry_point=key)


def _widened(argument: Any) -> Any:
    """The type of a literal's or a member's value."""
    if isinstance(argument, numba.types.IntEnumMember):
        return argument.dtype
    return numba.types.unliteral(argument)


def _without_machine_code(flags: Any) -> Any:
    flags.no_compile = True
    return flags


def compile_module(kernels: list[Kernel]) -> bytes:
    """Compile kernels to LLVM's bitcode, which is the same for all processors of this architecture.

    Args:
        kernels: Kernels with a signature; those that they call are compiled with them.

    Returns:
        Bitcode with one C function per kernel.

    Raises:
        TypeError: A kernel allocates or raises.
        numba.core.errors.NumbaError: Numba does not understand a kernel.
    """
    dispatchers: dict[Kernel, Any] = {}
    linked: set[Any] = set()
    module = llvm.parse_assembly("")
    module.triple = llvm.get_process_triple()
    with _numba_settings():
        for kernel in kernels:
            _add_entry(kernel, dispatchers, module, linked)
    module.verify()
    return simplify(module, frozenset(entry_name(kernel.name) for kernel in kernels))


@contextlib.contextmanager
def _numba_settings() -> Iterator[None]:
    """Have numba compile, and only compile.

    It would optimise those of its own functions that kernels call. And it would compile nothing where the user has
    switched compiling off for functions of their own, and code that raises where they have their own bounds checked. A
    fifth of its time would go into looking for garbage among the objects that it makes, almost all of which stay.
    """
    settings = config.OPT, config.DISABLE_JIT, config.BOUNDSCHECK
    collects = gc.isenabled()
    config.OPT, config.DISABLE_JIT, config.BOUNDSCHECK = type(config.OPT)(0), 0, 0
    gc.disable()
    try:
        yield
    finally:
        config.OPT, config.DISABLE_JIT, config.BOUNDSCHECK = settings
        if collects:
            gc.enable()


def _add_entry(kernel: Kernel, dispatchers: dict[Kernel, Any], module: Any, linked: set[Any]) -> None:
    """Add one kernel to a module, and a C function that calls it with pointers and lengths instead of arrays."""
    assert kernel.signature is not None
    compiled = _Dispatcher(_with_dispatchers(kernel, dispatchers))
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
    callback = numba.cfunc(result(*c_types), pipeline_class=_Compiler, _nrt=False, error_model="numpy")(scope["entry"])
    callback._library.link_into(module, linked)
    module.get_function(callback.native_name).name = entry_name(kernel.name)


def _with_dispatchers(kernel: Kernel, dispatchers: dict[Kernel, Any]) -> types.FunctionType:
    """The kernel's function with every kernel that it calls replaced by what numba can call."""

    def dispatcher(callee: Kernel) -> Any:
        if callee not in dispatchers:
            dispatchers[callee] = _Dispatcher(_with_dispatchers(callee, dispatchers))
        return dispatchers[callee]

    function = kernel.py_func
    scope = kernel.scope(dispatcher)
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
