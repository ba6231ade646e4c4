"""Losses and scores of other packages, by subclass: a row on which one fails is neither shown nor refused."""

import functools
import math
import sys
from typing import ClassVar

import numpy as np
import pytest
from numba import njit

import privfit as pf
from privfit.losses import AbstractLoss, AbstractScore, LossConstants, ScalarFunctions
from privfit.losses.base import evaluate, scalar
from privfit.losses.outside import guarded
from privfit.solvers import ExponentialMechanism

CANARY = 0.731


@scalar
def _value(y, eta, s, c, k):
    if y == CANARY:
        raise ValueError("response out of range", y)
    return math.sqrt(1.0 + (eta - y) ** 2) - 1.0


@scalar
def _slope(y, eta, s, c, k):
    if y == CANARY:
        raise ValueError("response out of range", y)
    return (eta - y) / math.sqrt(1.0 + (eta - y) ** 2)


@njit
def _curvature(y, eta, s, c, k):
    return (1.0 + (eta - y) ** 2) ** -1.5 + 0.0 / (y - CANARY)


def _array_slope(y, eta, s, c, k):
    np.log(CANARY - y)  # warns
    if (y == CANARY).any():
        raise ValueError(f"found {y}")
    return (eta - y) / np.sqrt(1.0 + (eta - y) ** 2)


class _Loss(AbstractLoss):
    target_kind: ClassVar = "numeric"
    functions: ClassVar = ScalarFunctions(_value, _slope, _curvature)
    name = property(lambda _: "of another package")
    parameters = property(lambda _: (0.0, 0.0))
    constants = property(lambda _: LossConstants(slope=1.0, curvature=1.0))


class _OfArrays(_Loss):
    compiled: ClassVar = False
    functions: ClassVar = ScalarFunctions(_array_slope, _array_slope, _array_slope)


class _Score(AbstractScore):
    target_kind: ClassVar = "numeric"
    value = property(lambda _: _value)
    name = property(lambda _: "of another package")
    parameters = property(lambda _: (0.0, 0.0))

    def span(self, radius):
        return 2.0 * radius


FITS = {
    f"{loss.__name__}, {solver}": (loss(), solver)
    for loss, solvers in {
        _Loss: (
            "whitened",
            "gradient-descent",
            "newton",
            "projected-gradient-descent",
            "empirical-bayes",
            "clipped-gradient-descent",
            "random-round",
            "noisy-sgd",
            "output-perturbation",
            "online-to-batch",
            ExponentialMechanism(),
            pf.solvers.RegularisedExponentialMechanism(),
        ),
        _OfArrays: (
            "whitened",
            "gradient-descent",
            "newton",
            "empirical-bayes",
            "clipped-gradient-descent",
            "online-to-batch",
        ),
    }.items()
    for solver in solvers
}


@pytest.mark.parametrize("cell", [0.5, CANARY], ids=["usual", "fails"])
@pytest.mark.parametrize("which", [*FITS, "score"])
def test_neighbours_are_fitted_in_silence(which, cell, capfd, recwarn, monkeypatch):
    shown = []
    monkeypatch.setattr(sys, "unraisablehook", shown.append)  # what Numba hands errors to
    rng = np.random.default_rng(0)
    n = 150 if which.startswith("_OfArrays") else 600  # arrays that fail are asked row by row
    X, y = rng.normal(size=(n, 1)), rng.uniform(-1.0, 0.7, size=n)
    y[7] = cell
    if which == "score":
        solver = ExponentialMechanism(score=_Score(), candidates=[[0.0, 0.0], [0.0, 1.0]])
        model = pf.LinearRegression(solver=solver, inference=False)
    else:
        loss, solver = FITS[which]
        model = pf.MEstimator(loss=loss, solver=solver, inference=False)
    assert model.fit(X, y).result_.private
    assert capfd.readouterr() == ("", "")
    assert not shown
    assert not recwarn.list


@pytest.mark.parametrize("loss", [_Loss(), _OfArrays()], ids=["compiled", "arrays"])
def test_a_row_on_which_a_function_fails_is_nan_and_the_others_are_what_they_were(loss, monkeypatch):
    shown = []
    monkeypatch.setattr(sys, "unraisablehook", shown.append)
    y = np.array([0.0, CANARY, 0.5])
    found = evaluate(loss.functions.slope, y, 0.25, s=1.0, loss=loss)
    np.testing.assert_allclose(found, [0.25 / math.hypot(1.0, 0.25), np.nan, -0.25 / math.hypot(1.0, 0.25)])
    assert not shown


@functools.wraps(pf.losses.Logistic.functions.slope.py_func)
def _wrapped(y, eta, *_):
    if (y == CANARY).any():
        raise ValueError(f"found {y}")
    return 0.5 * eta


def _exits(y, eta, *_):
    if (y == CANARY).any():
        sys.exit(3)
    return 0.5 * eta


@pytest.mark.parametrize("function", [_wrapped, _exits])
def test_neither_a_copied_name_nor_an_exit_shows_a_row(function):
    found = guarded(function)(np.array([0.0, CANARY]), np.array([1.0, 1.0]))
    np.testing.assert_array_equal(found, [0.5, np.nan])


def test_functions_of_arrays_may_call_one_another():
    inner = guarded(lambda y, eta, *_: eta - y)
    outer = guarded(lambda y, eta, *_: 0.5 * inner(y, eta))
    np.testing.assert_array_equal(outer(np.zeros(2), np.ones(2)), [0.5, 0.5])


def test_our_own_functions_are_called_as_they_are():
    own = pf.losses.Logistic.functions.slope
    assert guarded(own) is own
    once = guarded(_exits)
    assert guarded(once) is once
