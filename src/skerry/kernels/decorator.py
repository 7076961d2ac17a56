"""The `kernel` decorator: marks a function whose calls run as machine code."""

from __future__ import annotations

import functools
import hashlib
import importlib
import importlib.abc
import inspect
import os
import pkgutil
import subprocess
import sys
import threading
import types
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, overload

import numpy as np

from skerry.kernels import cache
from skerry.kernels.signature import Signature, parse_signature

__all__ = ["Kernel", "kernel", "warm_up"]

_lock = threading.RLock()
_modules: dict[str, dict[str, Kernel]] = {}


class Kernel:
    """A function that numba compiles.

    A kernel works on scalars and C-contiguous arrays; of one that it only reads and that is unaligned, it gets a copy.
    It neither allocates nor raises: results go into arrays that the caller brings, and what went wrong into the return
    value. It may call other kernels that its module imports by name, and use global numbers, tuples and arrays as
    constants.

    Args:
        py_func: The plain Python function.
        signature: Types in numba's notation with `out` before arrays that are written, for example
            `"int64(uint8[::1], out uint64[::1])"`. None for a kernel that only other kernels call.
    """

    def __init__(self, py_func: types.FunctionType, signature: str | None) -> None:
        functools.update_wrapper(self, py_func)
        self.py_func = py_func
        self.name = py_func.__name__
        self.signature: Signature | None = parse_signature(signature) if signature is not None else None
        self._converters = self.signature.converters() if self.signature is not None else ()
        self._function: Any = None
        _modules.setdefault(py_func.__module__, {})[self.name] = self

    def __call__(self, *arguments: Any) -> Any:
        """Run the machine code, compiled or loaded at the first call of any kernel of the module.

        Raises:
            TypeError: An argument is not of the kernel's signature.
        """
        if self._function is None:
            if self.signature is None:
                return self.py_func(*arguments)
            prepare(self.py_func.__module__)
        if len(arguments) != len(self._converters):
            raise TypeError(f"{self.name} takes {len(self._converters)} arguments, not {len(arguments)}")
        values: list[Any] = []
        for convert, argument in zip(self._converters, arguments, strict=True):
            convert(argument, values)
        return self._function(*values)

    def bind(self, address: int) -> None:
        """Let calls go to the machine code at an address."""
        assert self.signature is not None
        self._function = self.signature.c_function()(address)

    def callees(self) -> dict[str, Kernel]:
        """The kernels that this one calls, by the global name it uses."""
        scope = self.py_func.__globals__
        return {name: scope[name] for name in self.py_func.__code__.co_names if isinstance(scope.get(name), Kernel)}

    def digest(self) -> bytes:
        """Digest of everything that shapes the machine code: byte code, signature, constants, kernels called."""
        digest = hashlib.sha256()
        _add_code(digest, self.py_func.__code__)
        digest.update(repr((self.name, self.signature, self.py_func.__defaults__)).encode())
        for name in sorted(set(self.py_func.__code__.co_names)):
            value = self.py_func.__globals__.get(name)
            if isinstance(value, Kernel):
                if value is not self:
                    digest.update(value.digest())
            elif isinstance(value, np.ndarray):
                digest.update(f"{name} {value.dtype} {value.shape}".encode() + value.tobytes())
            elif isinstance(value, int | float | tuple | np.generic):
                digest.update(f"{name} {value!r}".encode())
        return digest.digest()


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
        return Kernel(signature, None)  # type: ignore[arg-type]
    return lambda function: Kernel(function, signature)  # type: ignore[arg-type]


def prepare(module_name: str) -> None:
    """Load the kernels of one module, or compile them and keep them for the next process."""
    with _lock:
        kernels = [kernel for kernel in _modules[module_name].values() if kernel.signature is not None]
        if all(kernel._function is not None for kernel in kernels):
            return
        from skerry.kernels import machine_code  # imports LLVM

        names = [kernel.name for kernel in kernels]
        path = _object_file(module_name)
        compiled = cache.read_module(path) if path is not None else None
        addresses = machine_code.load(compiled, names) if compiled is not None else None
        if addresses is None and path is not None:
            with cache.lock(path.with_suffix(".lock")):
                compiled = cache.read_module(path)  # another process may have written it meanwhile
                addresses = machine_code.load(compiled, names) if compiled is not None else None
                if addresses is None:
                    addresses = _compile(kernels, names, path)
        elif addresses is None:
            addresses = _compile(kernels, names, None)
        for kernel in kernels:
            kernel.bind(addresses[kernel.name])


def _object_file(module_name: str) -> Path | None:
    """Where the cache keeps the machine code of a module; None without a cache."""
    kernels = [kernel for kernel in _modules[module_name].values() if kernel.signature is not None]
    digest = hashlib.sha256(b"".join(sorted(kernel.digest() for kernel in kernels))).hexdigest()[:16]
    folder = cache.cache_directory()
    return folder / f"{module_name}-{digest}.o" if folder is not None else None


def _compile(kernels: list[Kernel], names: list[str], path: Path | None) -> dict[str, int]:
    from skerry.kernels import machine_code
    from skerry.kernels.compiling import compile_module  # imports numba

    compiled = compile_module(kernels)
    if path is not None:
        cache.write_module(path, compiled)
    addresses = machine_code.load(compiled, names)
    assert addresses is not None, "a module just compiled lacks symbols of this process"
    return addresses


def warm_up() -> list[str]:
    """Compile or load all kernels of the package, so that processes forked from this one find them in memory.

    Returns:
        The names of the modules with kernels.
    """
    for name in _modules_with_kernels(sys.modules["skerry"].__path__, "skerry."):
        importlib.import_module(name)
    names = sorted(name for name in _modules if name.startswith("skerry."))
    _compile_at_once(names)
    for name in names:
        prepare(name)
    return names


def _compile_at_once(names: list[str]) -> None:
    """Fill the cache with what it lacks, in one process per core; whatever fails there is compiled here afterwards."""
    missing = [name for name in names if (path := _object_file(name)) is not None and not path.exists()]
    if len(missing) < 2 or not sys.executable:
        return
    # long sources take long to compile: deal them out one by one, the longest first
    missing.sort(key=lambda name: len(inspect.getsource(sys.modules[name])), reverse=True)
    shares = min(os.cpu_count() or 1, len(missing))
    program = "import importlib, sys\nfrom skerry.kernels.decorator import prepare\n"
    program += "for name in sys.argv[1:]:\n    importlib.import_module(name)\n    prepare(name)"
    running = [
        subprocess.Popen(
            [sys.executable, "-c", program, *missing[share::shares]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for share in range(shares)
    ]
    for process in running:
        process.wait()


def _modules_with_kernels(paths: Iterable[str], prefix: str) -> Iterator[str]:
    """Find them by their source: importing all subpackages would load libraries that a worker may never need."""
    for found in pkgutil.iter_modules(paths, prefix):
        specification = found.module_finder.find_spec(found.name, None)
        if specification is None:
            continue
        if isinstance(specification.loader, importlib.abc.InspectLoader):
            source = specification.loader.get_source(found.name)
            if source is not None and "\n@kernel" in source:
                yield found.name
        if specification.submodule_search_locations:
            yield from _modules_with_kernels(specification.submodule_search_locations, found.name + ".")


def _add_code(digest: Any, code: types.CodeType) -> None:
    digest.update(repr((code.co_varnames, code.co_names, code.co_argcount)).encode() + code.co_code)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            _add_code(digest, constant)
        else:
            digest.update(repr(constant).encode())
