"""The model of the Hessian against means over normal rows."""

from functools import partial

import numpy as np
import pytest

from privfit.losses import Logistic, Multinomial, Poisson
from privfit.losses.typical import curvatures_along
from privfit.solvers.curvature import model_hessian

LEAST = 0.02
CENTERS = {"constant": [1.0, 0.0, 0.0], "turned": [0.48, 0.64, 0.6], "none": [0.0, 0.0, 0.0]}


def rows(center):
    """Normal rows (n, 3) on a grid with mean ``center`` and second moment I, and their probabilities."""
    nodes, chance = np.polynomial.hermite_e.hermegauss(40)
    u = np.array(np.meshgrid(nodes, nodes, nodes)).reshape(3, -1)
    chances = np.prod(np.meshgrid(chance, chance, chance), axis=0).ravel()
    values, vectors = np.linalg.eigh(np.eye(3) - np.outer(center, center))
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return (center[:, None] + root @ u).T, chances / chances.sum()


def over_rows(curvatures, phi, center):
    z, chance = rows(center)
    of_rows = curvatures(phi @ z.T)
    return np.einsum("n,njk,na,nb->jakb", chance, of_rows, z, z).reshape(phi.size, phi.size)


@pytest.mark.parametrize("center", CENTERS.values(), ids=CENTERS)
@pytest.mark.parametrize(
    ("loss", "phi"),
    [
        (Logistic(), [[0.3, 1.0, -0.5]]),
        (Logistic(), [[-0.5, 0.0, 2.0]]),
        (Logistic(), [[0.7, 0.0, 0.0]]),
        (Poisson(3.0, 20.0), [[0.2, 0.3, -0.4]]),
        (Multinomial(3), [[0.3, 1.0, -0.5], [0.2, -0.4, 0.6]]),
    ],
    ids=["logit", "strong logit", "constant logit", "counts", "classes"],
)
def test_it_is_the_mean_over_normal_rows(loss, phi, center):
    curvatures, center = partial(curvatures_along, loss, least=LEAST), np.array(center)
    found = model_hessian(curvatures, np.array(phi), center, smallest=1e-9)
    direct = over_rows(curvatures, np.array(phi), center)
    tolerance = 1e-4 if len(phi) == 1 else 0.03  # 101 nodes of one direction, 512 points of several
    assert np.abs(found - direct).max() < tolerance * np.abs(direct).max()


@pytest.mark.parametrize("center", CENTERS.values(), ids=CENTERS)
@pytest.mark.parametrize("loss", [Logistic(), Multinomial(3)], ids=["logit", "classes"])
def test_small_eigenvalues_are_raised_and_others_are_left(loss, center):
    curvatures, center = partial(curvatures_along, loss, least=1e-4), np.array(center)
    phi = np.array([[0.4, 3.0, -2.0], [-0.2, 1.0, 0.5]])[: loss.n_outputs]
    before = model_hessian(curvatures, phi, center, smallest=1e-9)
    after = model_hessian(curvatures, phi, center, smallest=0.4)
    if loss.n_outputs == 1:
        mean = np.median(np.linalg.eigvalsh(before))  # that across the plane in which the curvature changes
        values, vectors = np.linalg.eigh(before)
        assert values[0] < 0.4 * mean
        np.testing.assert_allclose(after, (vectors * np.maximum(values, 0.4 * mean)) @ vectors.T, atol=1e-12)
    else:
        raised = np.linalg.eigvalsh(after - before)
        assert raised[0] > -1e-12
        assert raised[-1] > 0.01


@pytest.mark.parametrize("loss", [Logistic(), Poisson(3.0, 20.0)], ids=["logit", "counts"])
def test_without_a_predictor_that_varies_it_is_a_multiple_of_the_identity(loss):
    curvatures = partial(curvatures_along, loss, least=LEAST)
    for phi, center in (([[1.0, 0.0]], [1.0, 0.0]), ([[0.0, 0.0]], [0.6, 0.8]), ([[0.0, 0.0]], [0.0, 0.0])):
        found = model_hessian(curvatures, np.array(phi), np.array(center))
        expected = curvatures(np.array([[np.dot(phi[0], center)]]))[0, 0, 0]
        np.testing.assert_allclose(found, expected * np.eye(2), rtol=1e-12, atol=1e-15)
