"""Instructions that the project's own compiled loops over vectors are made of."""

from typing import Any

from llvmlite import ir
from numba.core import cgutils

INTEGER, INDEX = ir.IntType(64), ir.IntType(32)
"""Types of addresses and distances, and of places in a vector."""


def pointer(builder: Any, address: Any, distance: Any, kind: Any) -> Any:
    """Return a pointer to what lies this many bytes behind an address."""
    return builder.inttoptr(builder.add(address, distance), kind.as_pointer())


def multiply_add(builder: Any, a: Any, b: Any, c: Any) -> Any:
    """Return ``a * b + c`` of vectors of one type, rounded once where the processor can."""
    kind = a.type
    bits = 64 if isinstance(kind.element, ir.DoubleType) else 32
    function = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(kind, [kind] * 3), f"llvm.fmuladd.v{kind.count}f{bits}"
    )
    return builder.call(function, [a, b, c])


def spread(builder: Any, number: Any, kind: Any) -> Any:
    """Return a vector of this type with a number in all lanes."""
    nothing = ir.Constant(kind, [0.0] * kind.count)
    one = builder.insert_element(nothing, number, INDEX(0))
    return builder.shuffle_vector(
        one, nothing, ir.Constant(ir.VectorType(INDEX, kind.count), [0] * kind.count)
    )


def new_sums(builder: Any, kind: Any, count: int) -> list[Any]:
    """Return variables of this vector type; 0."""
    nothing = ir.Constant(kind, [0.0] * kind.count)
    sums = [cgutils.alloca_once_value(builder, nothing) for _ in range(count)]
    for total in sums:
        builder.store(nothing, total)
    return sums


def add_to(builder: Any, total: Any, a: Any, b: Any) -> None:
    """Add ``a * b`` to a variable."""
    builder.store(multiply_add(builder, a, b, builder.load(total)), total)
