"""Kernels: what they compute, how they are kept on disk, and what happens when that disk is of no use."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import types
from enum import IntEnum
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import skerry
from skerry.kernels import (
    Kernel,
    byte_swap,
    cache,
    cache_directory,
    kernel,
    load,
    load_u16,
    load_u32,
    load_u64,
    rotate_left,
    store,
    warm_up,
)
from skerry.kernels.signature import Argument, parse_signature

SHIFT = np.uint64(3)


@kernel
def twice(value):
    return value + value


@kernel("int64(int32[::1], out int64[::1], int64)")
def add_doubled(values, out, offset):
    for i in range(len(values)):
        out[i] = twice(values[i]) + offset
    return len(values)


class Unit(IntEnum):
    """Seconds of a unit."""

    MINUTE = 60
    HOUR = 3600


class Span(NamedTuple):
    """A record that kernels hand to each other."""

    numbers: Any
    start: Any
    end: Any


@kernel
def seconds_of(count, unit):
    return count * unit


doubling = types.ModuleType("doubling")
doubling.twice = twice


@kernel("int64(int64)")
def four_times(value):
    return doubling.twice(doubling.twice(value))


@kernel
def span_sum(span):
    total = np.int64(0)
    for i in range(span.start, span.end):
        unit = span.numbers[i]
        total += seconds_of(i, Unit.HOUR) if unit == Unit.HOUR else seconds_of(i, Unit.MINUTE)
    return total


@kernel("int64(int64[::1])")
def sum_of_span(numbers):
    return span_sum(Span(numbers, start=np.int64(1), end=len(numbers)))


@kernel("void(uint64[:, ::1], out uint64[:, ::1])")
def shift_rows(values, out):
    for row in range(values.shape[0]):
        for column in range(values.shape[1]):
            out[row, column] = values[row, column] << SHIFT


@kernel("float64(float64, float64)")
def logarithm(value, base):
    return np.log(value) / np.log(base)


@kernel("uint64(uint64, uint64)")
def rotated(value, bits):
    return rotate_left(value, bits)


@kernel("void(uint8[::1], int64, out uint64[::1])")
def loaded(data, position, out):
    out[0] = load_u16(data, position)
    out[1] = load_u32(data, position)
    out[2] = load_u64(data, position)
    out[3] = byte_swap(out[2])


PROGRAM = """
import json, sys
import numpy as np
from skerry.kernels import kernel

@kernel
def scaled(value):
    return value + value

@kernel("int64(int64[::1])")
def total(values):
    result = np.int64(0)
    for i in range(len(values)):
        result += scaled(values[i])
    return result

print(json.dumps([total(np.arange(10)), "numba" in sys.modules]))
"""


def start(cache_root: Path | str, **variables: str) -> subprocess.Popen[str]:
    environment = os.environ | {"SKERRY_CACHE_DIR": str(cache_root)} | variables
    command = [sys.executable, "-c", PROGRAM]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen[str]) -> list[object]:
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return json.loads(out)


@pytest.fixture(scope="module")
def filled_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty cache that six processes filled at the same time."""
    root = tmp_path_factory.mktemp("cache")
    answers = [finish(process) for process in [start(root) for _ in range(6)]]
    assert [total for total, _ in answers] == [90] * 6
    assert sum(imported_numba for _, imported_numba in answers) == 1, "more than one process compiled"
    assert not list(root.glob("kernels/*/*.o?*")), "a temporary file was left"
    return root


def object_files(root: Path) -> list[Path]:
    return sorted(root.glob("kernels/*/*.o"))


def test_scalars_arrays_and_inner_kernels():
    values, out = np.arange(-3, 4, dtype=np.int32), np.zeros(7, np.int64)
    assert add_doubled(values, out, 5) == 7
    assert out.tolist() == [-1, 1, 3, 5, 7, 9, 11]
    rows, shifted = np.arange(6, dtype=np.uint64).reshape(2, 3), np.zeros((2, 3), np.uint64)
    assert shift_rows(rows, shifted) is None
    assert shifted.tolist() == [[0, 8, 16], [24, 32, 40]]
    assert logarithm(8, 2.0) == pytest.approx(3)


def test_enumerations_and_named_tuples():
    numbers = np.array([60, 60, 3600, 60], np.int64)
    assert sum_of_span(numbers) == sum_of_span.py_func(numbers) == 60 + 2 * 3600 + 3 * 60


def test_kernels_of_other_modules():
    assert four_times(5) == four_times.py_func(5) == 20
    assert four_times.callees()["doubling.twice"] is twice


def test_plain_twin_computes_the_same():
    values, out = np.arange(5, dtype=np.int32), np.zeros(5, np.int64)
    assert add_doubled.py_func(values, out, 1) == 5
    assert out.tolist() == [1, 3, 5, 7, 9]
    assert twice(21) == 42


def test_read_only_input_is_taken_and_read_only_output_refused():
    values = np.frombuffer(bytes(8), np.int32)
    assert add_doubled(values, np.zeros(2, np.int64), 0) == 2
    with pytest.raises(TypeError, match="writable"):
        add_doubled(values, np.frombuffer(bytes(16), np.int64), 0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.zeros(2, np.int64), np.zeros(2, np.int64), 0), r"takes int32\[1d\], not int64\[1d\]"),
        ((np.zeros((2, 2), np.int32), np.zeros(2, np.int64), 0), r"takes int32\[1d\], not int32\[2d\]"),
        (([1, 2], np.zeros(2, np.int64), 0), "not list"),
        ((np.zeros(4, np.int32)[::2], np.zeros(2, np.int64), 0), "contiguous"),
        ((np.zeros(2, np.int32), np.frombuffer(bytearray(17), np.int64, offset=1), 0), "aligned"),
        ((np.zeros(2, np.int32), np.zeros(2, np.int64)), "takes 3 arguments, not 2"),
        ((np.zeros(2, np.int32), np.zeros(2, np.int64), 0.5), "float"),
    ],
)
def test_wrong_arguments_never_reach_machine_code(arguments: tuple[object, ...], message: str):
    with pytest.raises(TypeError, match=message):
        add_doubled(*arguments)


def test_unaligned_array_is_read():
    values = np.frombuffer(b"\0" + np.arange(5, dtype=np.int32).tobytes(), np.int32, offset=1)
    assert not values.flags.aligned
    into = np.zeros(5, np.int64)
    assert add_doubled(values, into, 1) == 5
    assert into.tolist() == [1, 3, 5, 7, 9]


def test_signature_notation():
    parsed = parse_signature("int64( uint8[::1], out float32[:, ::1] ,int64)")
    assert parsed.arguments == (Argument("uint8", 1, False), Argument("float32", 2, True), Argument("int64", 0, False))
    assert parsed.result == "int64"
    assert parse_signature("void()").arguments == ()


@pytest.mark.parametrize(
    "text", ["int64", "int64(uint8[:])", "object(int64)", "int64(str)", "int64(out int64)", "int64(int64,)"]
)
def test_bad_signatures(text: str):
    with pytest.raises(TypeError, match="kernel"):
        parse_signature(text)


def changed(function: str, **scope: object) -> Kernel:
    names = {"__name__": "changed", "np": np, "kernel": kernel, **scope}
    exec(function, names)
    return names["f"]


def test_kernel_that_raises_is_refused():
    from skerry.kernels.compiling import compile_module

    picky = changed("@kernel('int64(int64)')\ndef f(x):\n    if x < 0:\n        raise ValueError\n    return x\n")
    with pytest.raises(TypeError, match="allocates or raises"):
        compile_module([picky])


def module_of(**values):
    module = types.ModuleType("module")
    module.__dict__.update(values)
    return module


def test_digest_follows_code_signature_constants_and_callees():
    text = "@kernel('int64(int64)')\ndef f(x):\n    return g(x) + C\n"
    inner = changed("@kernel\ndef f(x):\n    return x + 1\n")
    other = changed("@kernel\ndef f(x):\n    return x + 2\n")
    base = changed(text, g=inner, C=1).digest()
    assert changed(text, g=inner, C=1).digest() == base
    assert changed("# a comment\n" + text, g=inner, C=1).digest() == base
    fields = (
        NamedTuple("Pair", [("first", int), ("second", int)]),
        NamedTuple("Pair", [("second", int), ("first", int)]),
    )
    members = IntEnum("Code", "A B"), IntEnum("Code", "B A")
    different = {
        *(changed(text, g=inner, C=type_).digest() for type_ in (*fields, *members)),
        *(changed(text.replace("g(", "m.g("), m=module_of(g=g), C=1).digest() for g in (inner, other)),
        *(changed(text.replace("C", "m.C"), g=inner, m=module_of(C=value)).digest() for value in (1, 2)),
        changed(text, g=inner, C=2).digest(),
        changed(text, g=other, C=1).digest(),
        changed(text.replace("int64(", "int32("), g=inner, C=1).digest(),
        changed(text.replace("+ C", "- C"), g=inner, C=1).digest(),
        changed(text, g=inner, C=np.arange(2)).digest(),
        changed(text, g=inner, C=np.arange(3)).digest(),
        base,
    }
    assert len(different) == 15


@given(st.integers(0, (1 << 64) - 1), st.integers(0, 200))
def test_rotation(value: int, bits: int):
    number = f"{value:064b}"
    expected = int(number[bits % 64 :] + number[: bits % 64], 2)
    assert rotated(value, bits) == rotated.py_func(np.uint64(value), np.uint64(bits)) == expected


@given(st.binary(min_size=8, max_size=30), st.data())
def test_loads_at_any_place(content: bytes, data: st.DataObject):
    position = data.draw(st.integers(0, len(content) - 8))
    expected = [int.from_bytes(content[position : position + width], "little") for width in (2, 4, 8)]
    expected.append(int.from_bytes(content[position : position + 8], "big"))
    for function in (loaded, loaded.py_func):
        out = np.zeros(4, np.uint64)
        function(np.frombuffer(content, np.uint8), position, out)
        assert out.tolist() == expected


def test_warm_up_prepares_every_kernel_of_the_package():
    modules = warm_up()
    root = Path(skerry.__file__).parent
    with_kernels = {
        ".".join(("skerry", *path.relative_to(root).with_suffix("").parts))
        for path in root.rglob("*.py")
        if "\n@kernel" in path.read_text()
    }
    assert set(modules) < with_kernels
    for name in with_kernels:
        kernels = [value for value in vars(sys.modules[name]).values() if isinstance(value, Kernel)]
        called = [found for found in kernels if found.signature is not None and found.__module__ == name]
        assert bool(called) == (name in modules), name
        assert all(found.is_bound for found in called)


def test_warm_up_of_a_full_cache_starts_no_process(monkeypatch: pytest.MonkeyPatch):
    warm_up()
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("a process was started"))
    warm_up()


def test_many_processes_fill_an_empty_cache_and_later_ones_need_no_numba(filled_cache: Path):
    assert len(object_files(filled_cache)) == 1
    assert finish(start(filled_cache)) == [90, False]


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[:-100],
        lambda content: content[:200] + bytes([content[200] ^ 1]) + content[201:],
        lambda content: b"",
    ],
    ids=["truncated", "bit flip", "empty"],
)
def test_broken_file_is_as_good_as_none(filled_cache: Path, damage):
    for path in object_files(filled_cache):
        good = cache.read_module(path)
        content = path.read_bytes()
        path.write_bytes(damage(content))
        assert cache.read_module(path) is None
        path.write_bytes(content)
        assert cache.read_module(path) == good


def test_broken_file_is_compiled_again(filled_cache: Path):
    (path,) = object_files(filled_cache)
    path.write_bytes(path.read_bytes()[:-1])
    assert finish(start(filled_cache)) == [90, False], "its bitcode is kept beside it"
    for kept in (path, path.with_suffix(".bc")):
        kept.write_bytes(kept.read_bytes()[:-1])
    assert finish(start(filled_cache)) == [90, True]
    assert finish(start(filled_cache)) == [90, False]


def test_file_that_others_may_write_is_not_run(filled_cache: Path):
    for path in object_files(filled_cache):
        path.chmod(0o666)
        assert cache.read_module(path) is None
        path.chmod(0o600)
        assert cache.read_module(path) is not None


def test_object_file_with_unknown_symbol_is_not_loaded(filled_cache: Path):
    from skerry.kernels import machine_code

    good = cache.read_module(object_files(filled_cache)[0])
    assert good is not None
    assert machine_code.load(cache.CompiledModule(good.object_code, ("no_such_symbol",)), ["total"]) is None


def test_user_who_has_bounds_checked_by_numba(tmp_path: Path):
    assert finish(start(tmp_path, NUMBA_BOUNDSCHECK="1")) == [90, True]


def test_disk_that_takes_no_writing_and_user_who_has_switched_numba_off():
    assert finish(start("/dev/null/skerry", NUMBA_DISABLE_JIT="1")) == [90, True]


def test_cache_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    key = cache.machine_key()
    monkeypatch.setenv("SKERRY_CACHE_DIR", str(tmp_path / "a"))
    assert cache_directory() == tmp_path / "a" / "kernels" / key
    monkeypatch.delenv("SKERRY_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "b"))
    assert cache_directory() == tmp_path / "b" / "skerry" / "kernels" / key
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    assert cache_directory() == tmp_path / ".cache" / "skerry" / "kernels" / key

    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", no_home)
    assert cache_directory() is None


UNITS = [np.uint8(0), np.uint16(0), np.uint32(0), np.uint64(0), np.int8(0), np.int16(0), np.int32(0), np.int64(0)]
UNIT_16, UNIT_I16, UNIT_F32, UNIT_F64 = np.uint16(0), np.int16(0), np.float32(0), np.float64(0)


@kernel("void(uint8[::1], int64, out uint8[::1])")
def moved(data, position, out):
    store(UNIT_16, out, 1, load(UNIT_16, data, position))
    store(UNIT_16, out, 3, load(UNIT_I16, data, position))
    store(UNIT_F32, out, 5, load(UNIT_F32, data, position))
    store(UNIT_F64, out, 9, load(UNIT_F64, data, position))


@given(st.binary(min_size=12, max_size=12), st.integers(0, 4))
def test_numbers_move_between_any_bytes(content, position):
    data, out, twin = np.frombuffer(content, np.uint8), np.zeros(20, np.uint8), np.zeros(20, np.uint8)
    moved(data, position, out)
    moved.py_func(data, position, twin)
    expected = [content[position : position + size] for size in (2, 2, 4, 8)]
    assert out.tobytes() == twin.tobytes() == b"\0" + b"".join(expected) + bytes(3)


@given(st.binary(min_size=8, max_size=8))
def test_loaded_integers_are_widened(content):
    data = np.frombuffer(content, np.uint8)
    for unit in UNITS:
        value = load(unit, data, 0)
        assert value.dtype.itemsize == 8
        assert int(value) == int.from_bytes(content[: unit.itemsize], "little", signed=unit.dtype.kind == "i")
