"""Bitcode that comes with the package: used where it fits, passed over where it does not, for any processor."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from types import ModuleType

import llvmlite.binding as llvm
import pytest

import skerry
from skerry.amudai.statistics import hll
from skerry.kernels import cache, loading, prebuilt
from skerry.kernels.building import build_module

SOURCE = Path(skerry.__file__).parent
MODULE = hll.__name__
"""The module that compiles fastest."""

PROGRAM = """
import json, sys
import numpy as np
from skerry.amudai.statistics.hll import HllSketch
sketch = HllSketch()
sketch.update(np.array([1, 1 << 63, 1 << 62, 12345 << 40], np.uint64))
print(json.dumps([sketch.counters.tolist(), "numba" in sys.modules]))
"""


@pytest.fixture(scope="module")
def bitcode(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The content of the file that has the bitcode of `MODULE`."""
    folder = tmp_path_factory.mktemp("bitcode")
    build_module(MODULE, str(folder))
    return (folder / prebuilt.bitcode_file(MODULE)).read_bytes()


def installed(folder: Path, content: bytes) -> Path:
    """A folder with the package as a wheel would install it, and one file of bitcode."""
    kernels = folder / "skerry" / "kernels"
    (kernels / "bitcode").mkdir(parents=True)
    for path in SOURCE.iterdir():
        if path.name != "kernels":
            (folder / "skerry" / path.name).symlink_to(path)
    for path in (SOURCE / "kernels").glob("*.py"):
        (kernels / path.name).symlink_to(path)
    (kernels / "bitcode" / prebuilt.bitcode_file(MODULE)).write_bytes(content)
    return folder


def run(program: str, package: Path, cache_root: Path) -> object:
    environment = os.environ | {"PYTHONPATH": str(package), "SKERRY_CACHE_DIR": str(cache_root)}
    command = [sys.executable, "-c", program]
    return json.loads(subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout)


def test_kernels_of_a_wheel_run_without_numba(bitcode: bytes, tmp_path: Path):
    package = installed(tmp_path / "package", bitcode)
    counters, numba = run(PROGRAM, package, tmp_path / "cache")
    assert not numba
    damaged = installed(tmp_path / "damaged", bitcode[:-1])
    assert run(PROGRAM, damaged, tmp_path / "cache of damaged") == [counters, True]
    assert len(set(counters)) > 1
    objects = [
        sorted(path.read_bytes() for path in tmp_path.glob(f"{name}/*/*/*.o")) for name in ("cache", "cache of*")
    ]
    assert len(objects[0]) == 1
    assert objects[0] == objects[1], "machine code depends on who has compiled the bitcode"


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[:-1],
        lambda content: content[:99] + bytes([content[99] ^ 1]) + content[100:],
        lambda content: b"",
        lambda content: cache.sealed(b"no bitcode"),
    ],
    ids=["truncated", "bit flip", "empty", "sealed nonsense"],
)
def test_damaged_bitcode_is_as_good_as_none(bitcode: bytes, damage, monkeypatch: pytest.MonkeyPatch):
    content = bitcode
    monkeypatch.setattr(prebuilt.pkgutil, "get_data", lambda package, name: content)
    monkeypatch.setattr(cache, "compiler_source", lambda: b"")
    good = loading._compiled_from_bitcode(MODULE)
    assert good is not None
    assert good.object_code
    content = damage(bitcode)
    assert loading._compiled_from_bitcode(MODULE) is None


def test_bitcode_of_another_architecture_is_not_compiled(bitcode: bytes, monkeypatch: pytest.MonkeyPatch):
    module = llvm.parse_bitcode(cache.unsealed(bitcode) or b"")
    module.triple = "riscv64-unknown-linux-gnu"
    foreign = cache.sealed(module.as_bitcode())
    monkeypatch.setattr(prebuilt.pkgutil, "get_data", lambda package, name: foreign)
    monkeypatch.setattr(cache, "compiler_source", lambda: b"")
    assert loading._compiled_from_bitcode(MODULE) is None


def test_bitcode_knows_nothing_of_the_processor_that_it_was_made_on(bitcode: bytes):
    text = str(llvm.parse_bitcode(cache.unsealed(bitcode) or b""))
    assert "define" in text
    assert "target-cpu" not in text
    assert "target-features" not in text
    assert " x i" not in text, "a loop works on vectors"


def test_checkout_has_no_bitcode():
    assert prebuilt.read_bitcode(MODULE) is None


KERNELS = """
from skerry.kernels import kernel
C = {constant}

@kernel
def inner(x):
    return x {operator} 1  {comment}

@kernel('{result}(int64)')
def outer(x):
    return inner(x) + C
"""
KERNEL = {"constant": 1, "operator": "+", "comment": "", "result": "int64"}


def test_name_of_the_file_follows_source_constants_compilers_and_llvm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
):
    def module_of(name: str, **changed: object) -> ModuleType:
        (tmp_path / f"{name}.py").write_text(KERNELS.format(**KERNEL | changed))
        return importlib.import_module(name)

    monkeypatch.syspath_prepend(tmp_path)
    changes = {"constant": 2, "operator": "-", "comment": "# why", "result": "int32"}
    base = module_of("prebuilt_base").outer
    same = module_of("prebuilt_same").outer
    assert base.source_digest() == same.source_digest() != base.digest()
    others = [module_of(f"prebuilt_{name}", **{name: value}).outer for name, value in changes.items()]
    assert len({kernel.source_digest() for kernel in (base, *others)}) == 5

    names = [prebuilt.bitcode_file("prebuilt_base")]
    monkeypatch.setattr(llvm, "llvm_version_info", (llvm.llvm_version_info[0] + 1, 1, 0))
    names.append(prebuilt.bitcode_file("prebuilt_base"))
    monkeypatch.setattr(cache, "compiler_source", lambda: b"other")
    names.append(prebuilt.bitcode_file("prebuilt_base"))
    monkeypatch.setattr(llvm, "get_process_triple", lambda: "riscv64-unknown-linux-gnu")
    names.append(prebuilt.bitcode_file("prebuilt_base"))
    assert len(set(names)) == 4


def test_wheel_has_all_that_a_user_needs(tmp_path: Path):
    build = "import sys; from hatchling.build import build_wheel; print(build_wheel(sys.argv[1]))"
    command = [sys.executable, "-c", build, str(tmp_path)]
    subprocess.run(command, cwd=SOURCE.parents[1], check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as content:
        content.extractall(tmp_path / "site")
    files = {path.name for path in (tmp_path / "site" / "skerry" / "kernels" / "bitcode").iterdir()}
    assert files == {prebuilt.bitcode_file(name) for name in loading.import_kernels()}
    assert len(files) > 30
    assert (tmp_path / "site/skerry/py.typed").exists()
    assets = [path.name for path in (SOURCE / "web/assets").iterdir()]
    assert assets
    assert all((tmp_path / "site/skerry/web/assets" / name).exists() for name in assets)
    (about,) = tmp_path.glob("site/skerry-*.dist-info")
    assert f"Version: {skerry.__version__}" in (about / "METADATA").read_text()
    assert "Apache License" in (about / "licenses/LICENSE").read_text()
    _, numba = run(PROGRAM, tmp_path / "site", tmp_path / "cache")
    assert not numba
