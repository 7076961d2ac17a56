"""Kernels to machine code: loaded from the cache, or compiled once and kept there.

They are compiled from the bitcode that came with the package. Only where it does not fit, numba is imported.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.abc
import os
import pkgutil
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

from skerry.kernels import cache, prebuilt
from skerry.kernels.registry import Kernel, entry_kernels, modules_with_entries

__all__ = ["compiled_bitcode", "import_kernels", "prepare", "run_in_processes", "warm_up"]

_lock = threading.RLock()


def prepare(module_name: str) -> None:
    """Load the kernels of one module, or compile them and keep them for the next process."""
    with _lock:
        kernels = entry_kernels(module_name)
        if all(kernel.is_bound for kernel in kernels):
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
                    addresses = _compile(module_name, path)
        elif addresses is None:
            addresses = _compile(module_name, None)
        for kernel in kernels:
            kernel.bind(addresses[kernel.name])


def _object_file(module_name: str) -> Path | None:
    """Where the cache keeps the machine code of a module; None without a cache."""
    kernels = entry_kernels(module_name)
    digest = hashlib.sha256(b"".join(sorted(kernel.digest() for kernel in kernels))).hexdigest()[:16]
    folder = cache.cache_directory()
    return folder / f"{module_name}-{digest}.o" if folder is not None else None


def _compile(module_name: str, path: Path | None) -> dict[str, int]:
    from skerry.kernels import machine_code

    compiled = _compiled_from_bitcode(module_name)
    if compiled is None:
        compiled = machine_code.optimise(compiled_bitcode(module_name))
    if path is not None:
        cache.write_module(path, compiled)
    addresses = machine_code.load(compiled, [kernel.name for kernel in entry_kernels(module_name)])
    assert addresses is not None, "a module just compiled lacks symbols of this process"
    return addresses


def compiled_bitcode(module_name: str) -> bytes:
    """The bitcode of a module's kernels, from the cache or from numba: building a wheel compiles nothing twice."""
    objects = _object_file(module_name)
    path = objects.with_suffix(".bc") if objects is not None else None
    kept = cache.read_sealed(path) if path is not None else None
    if kept is not None:
        return kept
    from skerry.kernels.compiling import compile_module  # imports numba

    bitcode = compile_module(entry_kernels(module_name))
    if path is not None:
        cache.write_sealed(path, bitcode)
    return bitcode


def _compiled_from_bitcode(module_name: str) -> cache.CompiledModule | None:
    from skerry.kernels import machine_code

    bitcode = prebuilt.read_bitcode(module_name)
    try:
        return machine_code.optimise(bitcode) if bitcode is not None else None
    except ValueError:
        return None


def warm_up() -> list[str]:
    """Compile or load all kernels of the package, so that processes forked from this one find them in memory.

    Returns:
        The names of the modules with kernels that Python calls.
    """
    names = import_kernels()
    # in one process per core; what fails there is compiled in this one
    missing = [name for name in names if (path := _object_file(name)) is not None and not path.exists()]
    if len(missing) > 1:
        run_in_processes("from skerry.kernels.loading import prepare as run", missing)
    for name in names:
        prepare(name)
    return names


def import_kernels() -> list[str]:
    """Import the modules of the package that have kernels.

    Returns:
        The names of those with kernels that Python calls.
    """
    for name in _modules_with_kernels(sys.modules["skerry"].__path__, "skerry."):
        importlib.import_module(name)
    return modules_with_entries("skerry.")


def run_in_processes(function: str, names: list[str], *arguments: str) -> None:
    """Call a function for modules with kernels, in one process per core.

    Args:
        function: A statement that imports it as `run`.
        names: The modules, which are imported first. Each is the first argument of a call.
        arguments: Further arguments of every call.
    """
    if not sys.executable:
        return
    # much code takes long to compile: deal it out module by module, the largest first
    names = sorted(names, key=_code_bytes, reverse=True)
    shares = min(os.cpu_count() or 1, len(names))
    program = f"import importlib, sys\n{function}\ncount = int(sys.argv[1])\nfor name in sys.argv[2 + count:]:\n"
    program += "    importlib.import_module(name)\n    run(name, *sys.argv[2:2 + count])"
    running = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(len(arguments)), *arguments, *names[share::shares]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for share in range(shares)
    ]
    for process in running:
        process.wait()


def _code_bytes(module_name: str) -> int:
    """Bytes of byte code of a module's kernels and of those that they call."""
    found: set[Kernel] = set()
    waiting = entry_kernels(module_name)
    while waiting:
        kernel = waiting.pop()
        if kernel not in found:
            found.add(kernel)
            waiting += kernel.callees().values()
    return sum(len(kernel.py_func.__code__.co_code) for kernel in found)


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
