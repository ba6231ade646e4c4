"""Scalar functions by their address, which compiled loops call without asking Python for it each time."""

from functools import cache
from typing import Any

from llvmlite import ir
from numba import float64, int64
from numba.extending import intrinsic

from privfit.losses.outside import SIGNATURE, guarded

_DOUBLE = ir.DoubleType()
_POINTER = ir.FunctionType(_DOUBLE, [_DOUBLE] * len(SIGNATURE.args)).as_pointer()


@cache
def address(function: Any) -> int:
    """Return the address of a compiled scalar function, which stays in memory from then on.

    Numba can pass functions themselves, and then looks their address up at every call from Python, which can
    take longer than the pass over the rows that it is for.

    Parameters
    ----------
    function : ScalarFunction
        Compiled by Numba. One from outside raises for no row then, see `privfit.losses.outside`.
    """
    compiled = guarded(function).get_compile_result(SIGNATURE)
    return int(compiled.library.get_pointer_to_function(compiled.fndesc.llvm_cfunc_wrapper_name))


def _called(  # noqa: PLR0917 -- as the function called
    typing_context: Any, place: Any, y: Any, eta: Any, s: Any, c: Any, k: Any
) -> Any:
    """Call the scalar function at an address that `address` returned."""
    del typing_context, place, y, eta, s, c, k

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        del context, signature
        return builder.call(builder.inttoptr(arguments[0], _POINTER), arguments[1:])

    return float64(int64, *SIGNATURE.args), generate


called: Any = intrinsic(_called)
"""``called(address, y, eta, s, c, k)``; see `_called`."""
