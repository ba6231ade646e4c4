"""Ask the processor for memory ahead of its use, from compiled code."""

from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

LINE = 64
"""Bytes of a cache line."""

_MOST_LINES = 48
"""Cache lines that are asked for at once; with more, processors have to wait."""


def _prefetch(typing_context: Any, address: Any) -> Any:
    """Start loading the cache line at an address, an int64. It need not be valid: nothing is read or written.

    A loop that computes on what it loads leaves the memory idle in between; the hardware's own prefetching
    does not look far enough ahead to fill that time. The line is to go to the second level of the cache: the
    first has room for few that are on their way, and a full one makes the loop wait.
    """
    del typing_context

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        del signature
        pointer, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        function = builder.module.declare_intrinsic(
            "llvm.prefetch", (pointer,), ir.FunctionType(ir.VoidType(), [pointer, number, number, number])
        )
        read, second_level, data = number(0), number(2), number(1)
        builder.call(function, [builder.inttoptr(arguments[0], pointer), read, second_level, data])
        return context.get_dummy_value()

    return types.void(address), generate


prefetch: Any = intrinsic(_prefetch)
"""``prefetch(address)``; see `_prefetch`."""


@njit(inline="always")
def ask(address: int, length: int) -> None:
    """Ask for memory from an address on.

    Half of it before the products with eight rows, half before their sum: spread over the work on them it
    does not wait in line.
    """
    for offset in range(0, min(length, LINE * _MOST_LINES), LINE):
        prefetch(address + offset)
