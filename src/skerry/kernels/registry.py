"""The class of kernels, and the registry of all kernels by the module that defines them."""

from __future__ import annotations

import functools
import hashlib
import inspect
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from skerry.kernels.signature import Signature, parse_signature

__all__ = ["Kernel", "entry_kernels", "modules_with_entries"]

_modules: dict[str, dict[str, Kernel]] = {}


class Kernel:
    """A function that numba compiles.

    A kernel works on scalars and C-contiguous arrays; of one that it only reads and that is unaligned, it gets a copy.
    It neither allocates nor raises: results go into arrays that the caller brings, and what went wrong into the return
    value. It may call other kernels, by name or as `module.name`, and use global numbers, tuples, arrays,
    enumerations of integers and named tuples.

    Args:
        py_func: The plain Python function.
        signature: Types in numba's notation with `out` before arrays that are written, for example
            `"int64(uint8[::1], out uint64[::1])"`. None for a kernel that only other kernels call.
        prepare: Binds all kernels of a module, given its name, to machine code.
    """

    def __init__(self, py_func: types.FunctionType, signature: str | None, prepare: Callable[[str], None]) -> None:
        functools.update_wrapper(self, py_func)
        self.py_func = py_func
        self.name = py_func.__name__
        self.signature: Signature | None = parse_signature(signature) if signature is not None else None
        self._converters = self.signature.converters() if self.signature is not None else ()
        self._prepare = prepare
        self._function: Any = None
        self._digest: bytes | None = None
        self._source_digest: bytes | None = None
        _modules.setdefault(py_func.__module__, {})[self.name] = self

    def __call__(self, *arguments: Any) -> Any:
        """Run the machine code, compiled or loaded at the first call of any kernel of the module.

        Raises:
            TypeError: An argument does not match the kernel's signature.
        """
        if self._function is None:
            if self.signature is None:
                return self.py_func(*arguments)
            self._prepare(self.py_func.__module__)
        if len(arguments) != len(self._converters):
            raise TypeError(f"{self.name} takes {len(self._converters)} arguments, not {len(arguments)}")
        values: list[Any] = []
        for convert, argument in zip(self._converters, arguments, strict=True):
            convert(argument, values)
        return self._function(*values)

    @property
    def is_bound(self) -> bool:
        """Whether calls go to machine code."""
        return self._function is not None

    def bind(self, address: int) -> None:
        """Let calls go to the machine code at an address."""
        assert self.signature is not None
        self._function = self.signature.c_function()(address)

    def callees(self) -> dict[str, Kernel]:
        """The kernels that this one calls, by the name it uses: `decode`, or `alp.decode` for one of a module."""
        return {name: value for name, value in self._globals().items() if isinstance(value, Kernel)}

    def scope(self, replace: Callable[[Kernel], Any]) -> dict[str, Any]:
        """The global names that the plain function uses, with something else in place of each kernel that it calls."""
        scope = dict(self.py_func.__globals__)
        for name, callee in self.callees().items():
            module_name, _, attribute = name.rpartition(".")
            if not module_name:
                scope[name] = replace(callee)
                continue
            if scope[module_name] is self.py_func.__globals__[module_name]:
                copy = types.ModuleType(module_name)
                copy.__dict__.update(vars(scope[module_name]))
                scope[module_name] = copy
            setattr(scope[module_name], attribute, replace(callee))
        return scope

    def digest(self) -> bytes:
        """Digest of everything that shapes the machine code: byte code, signature, constants, kernels called."""
        if self._digest is None:
            digest = hashlib.sha256()
            _add_code(digest, self.py_func.__code__)
            self._digest = self._digest_with(digest, Kernel.digest)
        return self._digest

    def source_digest(self) -> bytes:
        """Digest of the same with source instead of byte code, which differs between versions of Python.

        Raises:
            OSError: There is no source.
        """
        if self._source_digest is None:
            digest = hashlib.sha256(inspect.getsource(self.py_func).encode())
            self._source_digest = self._digest_with(digest, Kernel.source_digest)
        return self._source_digest

    def _digest_with(self, digest: Any, digest_of: Callable[[Kernel], bytes]) -> bytes:
        digest.update(repr((self.name, self.signature, self.py_func.__defaults__)).encode())
        for name, value in sorted(self._globals().items()):
            if isinstance(value, Kernel):
                digest.update(digest_of(value))
            elif isinstance(value, np.ndarray):
                digest.update(f"{name} {value.dtype} {value.shape}".encode() + value.tobytes())
            elif isinstance(value, int | float | tuple | np.generic):
                digest.update(f"{name} {value!r}".encode())
            elif isinstance(value, type):  # an enumeration or a named tuple
                members = getattr(value, "__members__", None) or getattr(value, "_fields", None)
                digest.update(f"{name} {members!r}".encode())
        return bytes(digest.digest())

    def _globals(self) -> dict[str, Any]:
        """Global values by the names that the function may use, those of modules after the module's name."""
        scope, names = self.py_func.__globals__, self.py_func.__code__.co_names
        found = {name: scope[name] for name in names if name in scope}
        for name, value in list(found.items()):
            if isinstance(value, types.ModuleType):
                found |= {
                    f"{name}.{attribute}": vars(value)[attribute] for attribute in names if attribute in vars(value)
                }
        return {name: value for name, value in found.items() if value is not self}


def entry_kernels(module_name: str) -> list[Kernel]:
    """The kernels of a module that Python calls: those with a signature."""
    return [kernel for kernel in _modules[module_name].values() if kernel.signature is not None]


def modules_with_entries(prefix: str) -> list[str]:
    """The names of imported modules that begin with a prefix and have kernels that Python calls."""
    return sorted(name for name in _modules if name.startswith(prefix) and entry_kernels(name))


def _add_code(digest: Any, code: types.CodeType) -> None:
    digest.update(repr((code.co_varnames, code.co_names, code.co_argcount)).encode() + code.co_code)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            _add_code(digest, constant)
        else:
            digest.update(repr(constant).encode())
