"""Bitcode of kernels that comes with the package, so that only LLVM's back end runs on the user's machine.

Building a wheel makes one file per module with kernels (`hatch_build.py`). Its name has a digest of what shapes the
bitcode: the source of the kernels and of the modules that compile them, the architecture, and LLVM's major version. The
versions of numba and Python are not among it: bitcode contains all that it needs of them. Where there is no such file,
as in a checkout, or it is damaged, numba compiles the kernels.
"""

from __future__ import annotations

import hashlib
import pkgutil

from skerry.kernels import cache
from skerry.kernels.registry import entry_kernels

__all__ = ["bitcode_file", "read_bitcode"]

_FOLDER = "bitcode"


def read_bitcode(module_name: str) -> bytes | None:
    """The bitcode of a module's kernels; None if none came with the package that fits source and LLVM."""
    try:
        content = pkgutil.get_data("skerry.kernels", f"{_FOLDER}/{bitcode_file(module_name)}")
    except OSError:  # no file, or no source
        return None
    return cache.unsealed(content) if content is not None else None


def bitcode_file(module_name: str) -> str:
    """The name of the file with the bitcode of a module's kernels.

    Raises:
        OSError: A kernel has no source.
    """
    import llvmlite.binding as llvm  # not loaded before a kernel runs

    parts = [llvm.get_process_triple(), str(llvm.llvm_version_info[0])]
    digest = hashlib.sha256("\n".join(parts).encode() + cache.compiler_source())
    for kernel_digest in sorted(kernel.source_digest() for kernel in entry_kernels(module_name)):
        digest.update(kernel_digest)
    return f"{module_name}-{digest.hexdigest()[:16]}.bc"
