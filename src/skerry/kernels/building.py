"""Bitcode of all kernels, written where the package is built; `prebuilt` reads it."""

from __future__ import annotations

from pathlib import Path

from skerry.kernels import cache
from skerry.kernels.compiling import compile_module
from skerry.kernels.loading import import_kernels, run_in_processes
from skerry.kernels.prebuilt import bitcode_file
from skerry.kernels.registry import entry_kernels

__all__ = ["build", "build_module"]


def build(folder: str) -> None:
    """Write the bitcode of all kernels of the package into an empty folder.

    Raises:
        RuntimeError: The kernels of a module could not be compiled.
    """
    names = import_kernels()
    run_in_processes("from skerry.kernels.building import build_module as run", names, folder)
    missing = [name for name in names if not (Path(folder) / bitcode_file(name)).exists()]
    if missing:
        raise RuntimeError(f"the kernels of these modules were not compiled: {', '.join(missing)}")


def build_module(module_name: str, folder: str) -> None:
    """Write the bitcode of one module's kernels."""
    bitcode = compile_module(entry_kernels(module_name))
    (Path(folder) / bitcode_file(module_name)).write_bytes(cache.sealed(bitcode))
