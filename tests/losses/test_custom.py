"""Losses from the user's functions, compiled or by NumPy."""

import copy
import math
import pickle

import numpy as np
import pytest

from privfit.errors import InvalidArgument
from privfit.losses import Custom, PseudoHuber
from privfit.losses.base import evaluate

CANARY = 7341.5


def value(y, eta):
    return math.sqrt(1.0 + (eta - y) ** 2) - 1.0


def slope(y, eta):
    return (eta - y) / math.sqrt(1.0 + (eta - y) ** 2)


def curvature(y, eta):
    return (1.0 + (eta - y) ** 2) ** -1.5


def array_value(y, eta):
    return np.sqrt(1.0 + (eta - y) ** 2) - 1.0


def array_slope(y, eta):
    return (eta - y) / np.sqrt(1.0 + (eta - y) ** 2)


BOUNDS = {"slope_bound": 1.0, "curvature_bound": 1.0}


@pytest.fixture(scope="module", params=["compiled", "arrays"])
def loss(request):
    """Compiled, which takes a second, where a test asks for it."""
    if request.param == "compiled":
        return Custom(value, slope, curvature, **BOUNDS)
    return Custom(array_value, array_slope, curvature, vectorized=True, **BOUNDS)


def test_functions_are_what_was_given(loss):
    eta = np.linspace(-5, 5, 101)
    for name in ("value", "slope", "curvature"):
        given = evaluate(getattr(loss.functions, name), 0.4, eta, s=1.0, loss=loss)
        same = evaluate(getattr(PseudoHuber(1.0).functions, name), 0.4, eta, s=1.0, loss=PseudoHuber(1.0))
        np.testing.assert_allclose(given, same, atol=1e-14)
    assert loss.constants.slope == loss.constants.curvature == 1.0
    assert loss.convex
    assert not loss.proven
    assert loss.compiled == (loss.value is value)


def test_what_is_declared():
    declared = {"slope_bound": 2, "target_kind": "binary", "convex": False, "name": "mine"}
    loss = Custom(array_value, array_slope, vectorized=True, **declared)
    assert (loss.name, loss.target_kind, loss.convex) == ("mine", "binary", False)
    assert not loss.constants.smooth
    assert repr(loss) == "Custom(name='mine', slope_bound=2, curvature_bound=inf)"
    assert loss.functions.curvature(0.0, 1.0, 1.0, 0.0, 0.0) == 0.0


def test_identity_copies_and_pickles(loss):
    assert copy.deepcopy(loss) is loss
    assert copy.copy(loss) is loss
    other = pickle.loads(pickle.dumps(loss))  # noqa: S301
    assert other != loss
    assert repr(other) == repr(loss)
    assert float(other.functions.slope(0.0, 1.0, 1.0, 0.0, 0.0)) == pytest.approx(math.sqrt(0.5))


def test_a_compiled_function_that_fails_gives_nan_and_no_error():
    def raising(y, eta):
        if eta > 1.0:
            raise ValueError("no")
        return eta

    loss = Custom(value, raising, slope_bound=1.0)
    assert loss.functions.slope(0.0, 0.5, 1.0, 0.0, 0.0) == 0.5
    assert math.isnan(loss.functions.slope(0.0, 2.0, 1.0, 0.0, 0.0))
    divides = Custom(value, lambda y, eta: 1.0 / eta, slope_bound=1.0)
    assert divides.functions.curvature is loss.functions.curvature  # none was given; compiled once
    assert divides.functions.curvature(0.0, 1.0, 1.0, 0.0, 0.0) == 0.0
    assert divides.functions.slope(0.0, 0.0, 1.0, 0.0, 0.0) == math.inf


def fails_at_canary(y, eta):
    if (y == CANARY).any():
        raise ValueError(f"found {y}")
    return eta - y


def shrinks_at_canary(y, eta):
    return (eta - y)[y != CANARY]


def widens_at_canary(y, eta):
    return np.stack([eta, y]) if (y == CANARY).any() else eta - y


def names_the_canary(y, eta):
    return np.array(["canary" if one else "1.5" for one in y == CANARY])


@pytest.mark.parametrize(
    "broken",
    [fails_at_canary, shrinks_at_canary, widens_at_canary, names_the_canary],
    ids=lambda f: f.__name__,
)
def test_a_row_on_which_an_array_function_fails_is_nan_and_the_others_are_what_they_were(broken):
    loss = Custom(array_value, broken, slope_bound=1.0, vectorized=True)
    y, eta = np.array([0.0, CANARY, 2.0]), np.array([0.5, 0.0, 1.0])
    out = loss.functions.slope(y, eta, 1.0, 0.0, 0.0)
    assert np.isnan(out[1])
    np.testing.assert_array_equal(out[[0, 2]], broken(y[[0, 2]], eta[[0, 2]]).astype(float))
    assert math.isnan(loss.functions.slope(CANARY, 0.0, 1.0, 0.0, 0.0))


def test_warnings_of_array_functions_are_silenced(recwarn):
    loss = Custom(array_value, lambda y, eta: 1.0 / (eta - y), slope_bound=1.0, vectorized=True)
    out = loss.functions.slope(np.zeros(3), np.array([-1.0, 0.0, 1e-320]), 1.0, 0.0, 0.0)
    assert np.isinf(out[1:]).all()
    assert len(recwarn) == 0


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        (lambda y, eta: eta - y.mean(), "row by row"),
        (lambda y, eta: np.cumsum(eta), "row by row"),
        (lambda y, eta: (eta - y)[:-1], "one number a row"),
        (lambda y, eta: np.stack([eta, y]), "one number a row"),
        (lambda y, eta: 1.0, "one number a row"),
        (lambda y, eta: ["a"] * len(y), "failed"),
        (lambda y, eta: y.sort(), "failed"),
        (lambda y, eta: 1 / 0, "failed"),
        (lambda y, eta: eta.nothing, "failed"),
    ],
)
def test_functions_of_arrays_are_tried_out_on_public_points(broken, says):
    with pytest.raises(InvalidArgument, match=f"slope .*{says}"):
        Custom(array_value, broken, slope_bound=1.0, vectorized=True)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"slope_bound": 0}, "slope_bound"),
        ({"slope_bound": math.inf}, "slope_bound"),
        ({"slope_bound": 1, "curvature_bound": -1}, "curvature_bound"),
        ({"slope_bound": 1, "target_kind": "text"}, "target_kind"),
        ({"slope_bound": 1, "curvature_bound": 1}, "curvature is needed"),
    ],
)
def test_declarations_are_checked(arguments, says):
    with pytest.raises(InvalidArgument, match=says):
        Custom(value, slope, **arguments)


def test_what_numba_cannot_compile_names_the_remedy():
    for function in (lambda y, eta: np.frombuffer(y), lambda y: y, lambda y, eta: "a"):
        with pytest.raises(InvalidArgument, match="vectorized=True") as caught:
            Custom(function, slope, slope_bound=1.0)
        assert caught.value.__context__ is None
    with pytest.raises(InvalidArgument, match="slope must be a function"):
        Custom(value, 3, slope_bound=1.0)
