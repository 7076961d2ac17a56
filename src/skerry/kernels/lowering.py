# mypy: disable-error-code="untyped-decorator"
"""The LLVM of each intrinsic, and of an array made from a pointer and lengths (imports numba)."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array

__all__ = ["LOWERED", "input_array", "output_array"]

_WORD = ir.IntType(64)


def _call(builder: Any, name: str, operands: list[Any]) -> Any:
    """A call of LLVM's own function of that name on words."""
    function_type = ir.FunctionType(_WORD, [_WORD] * len(operands))
    return builder.call(cgutils.get_or_insert_function(builder.module, function_type, name), operands)


@intrinsic
def _rotate_left(_typing: Any, _value: Any, _bits: Any) -> Any:
    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        value, bits = arguments
        return _call(builder, "llvm.fshl.i64", [value, value, bits])

    return types.uint64(types.uint64, types.uint64), generate


@intrinsic
def _byte_swap(_typing: Any, _value: Any) -> Any:
    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return _call(builder, "llvm.bswap.i64", list(arguments))

    return types.uint64(types.uint64), generate


@intrinsic
def _multiply_high(_typing: Any, _value: Any, _factor: Any) -> Any:
    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        wide = ir.IntType(128)
        value, factor = (builder.zext(argument, wide) for argument in arguments)
        return builder.trunc(builder.lshr(builder.mul(value, factor), ir.Constant(wide, 64)), _WORD)

    return types.uint64(types.uint64, types.uint64), generate


def _load(bits: int) -> Any:
    @intrinsic
    def load(_typing: Any, data: Any, _position: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            array = context.make_array(signature.args[0])(context, builder, arguments[0])
            address = builder.gep(array.data, [arguments[1]])
            loaded = builder.load(builder.bitcast(address, ir.IntType(bits).as_pointer()), align=1)
            return loaded if bits == 64 else builder.zext(loaded, _WORD)

        return types.uint64(data, types.int64), generate

    return load


def _element(context: Any, builder: Any, array_type: Any, array: Any, position: Any, value_type: Any) -> Any:
    """The address of a value of some type at a byte of an array of bytes."""
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [position]), context.get_data_type(value_type).as_pointer())


def _widest(unit: Any) -> Any:
    """The type that kernels compute with instead of a narrow one."""
    if isinstance(unit, types.Float):
        return unit
    return types.int64 if unit.signed else types.uint64


@intrinsic
def _load_unit(_typing: Any, unit: Any, data: Any, _position: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address = _element(context, builder, signature.args[1], arguments[1], arguments[2], unit)
        return context.cast(builder, builder.load(address, align=1), unit, signature.return_type)

    return _widest(unit)(unit, data, types.int64), generate


@intrinsic
def _store_unit(_typing: Any, unit: Any, data: Any, _position: Any, _value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address = _element(context, builder, signature.args[1], arguments[1], arguments[2], unit)
        builder.store(context.cast(builder, arguments[3], signature.args[3], unit), address, align=1)
        return context.get_dummy_value()

    return types.void(unit, data, types.int64, _widest(unit)), generate


LOWERED: dict[str, Any] = {
    "rotate_left": _rotate_left,
    "byte_swap": _byte_swap,
    "multiply_high": _multiply_high,
    "load": _load_unit,
    "store": _store_unit,
    "load_u16": _load(16),
    "load_u32": _load(32),
    "load_u64": _load(64),
}


def _array_of(*, readonly: bool) -> Any:
    @intrinsic
    def array_of(_typing: Any, pointer: Any, lengths: Any) -> Any:
        array_type = types.Array(pointer.dtype, len(lengths), "C", readonly=readonly)

        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            array = context.make_array(array_type)(context, builder)
            element = context.get_data_type(array_type.dtype)
            item_bytes = context.get_constant(types.intp, context.get_abi_sizeof(element))
            shape = cgutils.unpack_tuple(builder, arguments[1])
            strides = [item_bytes]
            for length in shape[:0:-1]:
                strides.insert(0, builder.mul(strides[0], length))
            data = builder.bitcast(arguments[0], array.data.type)
            populate_array(array, data=data, shape=shape, strides=strides, itemsize=item_bytes, meminfo=None)
            return array._getvalue()

        return array_type(pointer, lengths), generate

    return array_of


input_array, output_array = _array_of(readonly=True), _array_of(readonly=False)
