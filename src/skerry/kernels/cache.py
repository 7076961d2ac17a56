"""The cache of compiled kernels: one object file per module, named by a digest of everything that shaped it.

Beside it is the bitcode that numba made, where it did, from which a wheel is built.

A file is written under a temporary name and moved to its final one, and carries a digest of its content, so a reader
never sees half a file: one that is truncated, corrupt or not ours is ignored, and the kernels are compiled again. The
lock only saves processes that start together from all compiling the same kernels; without it, each compiles.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.util
import json
import logging
import os
import pkgutil
import platform
import stat
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

try:
    import fcntl
except ImportError:  # not a POSIX system: go without the lock
    fcntl = None  # type: ignore[assignment]

__all__ = [
    "CompiledModule",
    "cache_directory",
    "compiler_source",
    "is_trusted",
    "lock",
    "machine_key",
    "read_module",
    "read_sealed",
    "sealed",
    "unsealed",
    "user_cache_directory",
    "write_module",
    "write_sealed",
]

_LOG = logging.getLogger("skerry")
_MAGIC = b"skerry kernels 1\n"
_DIGEST_BYTES = 32


@dataclass(frozen=True, slots=True)
class CompiledModule:
    """The kernels of one Python module in machine code.

    Args:
        object_code: A relocatable object file with one C function per kernel.
        external_symbols: What the object file expects to find in the process (of libc and libm).
    """

    object_code: bytes
    external_symbols: tuple[str, ...]


@functools.cache
def machine_key() -> str:
    """Digest of what machine code depends on: CPU, Python, the compilers and the code that drives them."""
    import llvmlite  # a library of more than 100 MB, not loaded before a kernel runs
    import llvmlite.binding as llvm
    import numpy as np

    parts = [
        llvm.get_process_triple(),
        llvm.get_host_cpu_name(),
        llvm.get_host_cpu_features().flatten(),
        platform.python_implementation(),
        ".".join(map(str, sys.version_info[:3])),
        llvmlite.__version__,
        np.__version__,
    ]
    digest = hashlib.sha256("\n".join(parts).encode())
    digest.update(_numba_version())
    digest.update(compiler_source())
    return digest.hexdigest()[:16]


def compiler_source() -> bytes:
    """The source of what makes machine code out of kernels."""
    modules = ("compiling", "intrinsics", "lowering", "machine_code")
    return b"".join(pkgutil.get_data("skerry.kernels", f"{name}.py") or b"" for name in modules)


def _numba_version() -> bytes:
    """What says numba's version: a file, since importing numba takes a second."""
    specification = importlib.util.find_spec("numba")
    assert specification is not None
    assert specification.origin is not None
    return Path(specification.origin).with_name("_version.py").read_bytes()


def cache_directory() -> Path | None:
    """The folder for this machine's kernels; None if there is no cache folder."""
    root = user_cache_directory()
    return None if root is None else root / "kernels" / machine_key()


def user_cache_directory() -> Path | None:
    """The folder for what can be made again: `$SKERRY_CACHE_DIR` or the user's cache folder, if there is one."""
    root = os.environ.get("SKERRY_CACHE_DIR")
    try:
        if root:
            return Path(root).expanduser()
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "skerry"
    except RuntimeError:  # no home directory can be determined
        return None


def is_trusted(status: os.stat_result) -> bool:
    """Whether only this user or root can have written a file of the cache."""
    return status.st_uid in (0, os.geteuid()) and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def read_module(path: Path) -> CompiledModule | None:
    """Read a compiled module; None if there is none that can be trusted."""
    body = read_sealed(path)
    if body is None:
        return None
    header, _, object_code = body.partition(b"\n")
    return CompiledModule(object_code, tuple(json.loads(header)))


def write_module(path: Path, module: CompiledModule) -> None:
    """Write a compiled module atomically; if the disk cannot be written, the next process compiles again."""
    write_sealed(path, json.dumps(module.external_symbols).encode() + b"\n" + module.object_code)


def read_sealed(path: Path) -> bytes | None:
    """What `write_sealed` has written; None if there is nothing that can be trusted."""
    try:
        with path.open("rb") as file:
            if not is_trusted(os.fstat(file.fileno())):  # machine code that another user planted is not run
                _LOG.info("%s: refused from the cache: another user may have written it", path)
                return None
            content = file.read()
    except OSError:
        return None
    body = unsealed(content)
    if body is None:
        _LOG.info("%s: refused from the cache: it is damaged or of another version", path)
    return body


def write_sealed(path: Path, body: bytes) -> None:
    """Write a file of the cache atomically, if the disk can be written."""
    with contextlib.suppress(OSError):
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
        try:
            with open(handle, "wb") as file:
                file.write(sealed(body))
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise


def sealed(body: bytes) -> bytes:
    """The content of a file, from which a reader can tell that nothing is missing."""
    return _MAGIC + hashlib.sha256(body).digest() + body


def unsealed(content: bytes) -> bytes | None:
    """What was sealed; None if the file is truncated, damaged or not ours."""
    body = content[len(_MAGIC) + _DIGEST_BYTES :]
    return body if content == sealed(body) else None


@contextlib.contextmanager
def lock(path: Path) -> Iterator[None]:
    """Hold a file lock across processes while the block runs, if the disk and the system have locks."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        yield
        return
    try:
        if fcntl is not None:
            with contextlib.suppress(OSError):
                fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
