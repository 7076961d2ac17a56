"""Bitcode of all kernels, written where the package is built; `prebuilt` reads it."""

from __future__ import annotations

from pathlib import Path

from skerry.kernels import cache
from skerry.kernels.loading import compiled_bitcode, import_kernels, run_in_processes
from skerry.kernels.prebuilt import bitcode_file

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
    (Path(folder) / bitcode_file(module_name)).write_bytes(cache.sealed(compiled_bitcode(module_name)))
