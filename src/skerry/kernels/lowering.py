"""What LLVM is told for each intrinsic, and for an array made of a pointer and lengths (imports numba)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array

__all__ = ["LOWERED", "input_array", "output_array"]

_WORD = ir.IntType(64)


def _call(name: str, arity: int) -> Callable[[Any, list[Any]], Any]:
    """Calls LLVM's intrinsic of that name."""

    def emit(builder: Any, operands: list[Any]) -> Any:
        function_type = ir.FunctionType(_WORD, [_WORD] * arity)
        return builder.call(cgutils.get_or_insert_function(builder.module, function_type, name), operands)

    return emit


_funnel_shift_left = _call("llvm.fshl.i64", 3)
_swap = _call("llvm.bswap.i64", 1)


@intrinsic
def _rotate_left(_typing: Any, _value: Any, _bits: Any) -> Any:
    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        value, bits = arguments
        return _funnel_shift_left(builder, [value, value, bits])

    return types.uint64(types.uint64, types.uint64), generate


@intrinsic
def _byte_swap(_typing: Any, _value: Any) -> Any:
    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return _swap(builder, list(arguments))

    return types.uint64(types.uint64), generate


@intrinsic
def _load_word(_typing: Any, data: Any, _position: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        pointer = builder.bitcast(builder.gep(array.data, [arguments[1]]), _WORD.as_pointer())
        return builder.load(pointer, align=1)

    return types.uint64(data, types.int64), generate


LOWERED: dict[str, Any] = {"rotate_left": _rotate_left, "byte_swap": _byte_swap, "load_word": _load_word}


def _array_of(readonly: bool) -> Any:
    @intrinsic
    def array_of(_typing: Any, pointer: Any, lengths: Any) -> Any:
        array_type = types.Array(pointer.dtype, len(lengths), "C", readonly=readonly)

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
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
