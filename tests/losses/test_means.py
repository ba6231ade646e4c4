"""Mean responses against the derivatives of the losses that have them."""

import numpy as np
import pytest

from privfit.losses import Huber, Logistic, Multinomial, Poisson
from privfit.losses.base import evaluate

SCALARS = (Logistic(), Poisson(3.0, 20.0))
CLASSES = tuple(Multinomial(k) for k in (2, 3, 6))


@pytest.fixture
def rng():
    return np.random.default_rng(3)


@pytest.mark.parametrize("loss", [*SCALARS, *CLASSES], ids=lambda loss: loss.name)
def test_predictors_of_means_are_the_predictors(loss, rng):
    eta = rng.uniform(-2.0, 2.0, size=(loss.n_outputs, 4, 5))
    means = loss.means.at(eta)
    assert means.shape == (len(loss.means.lift), 4, 5)
    np.testing.assert_allclose(loss.means.predictors(means), eta, atol=1e-12)


@pytest.mark.parametrize("loss", SCALARS, ids=lambda loss: loss.name)
def test_slopes_and_curvatures_of_scalar_losses(loss, rng):
    """Slopes times the lift are means less responses, and the curvature along it is the variance."""
    eta, y = rng.uniform(-2.0, 2.0, size=50), rng.integers(0, 2, 50).astype(float)
    slopes = evaluate(loss.functions.slope, y, eta, s=1.0, loss=loss)
    curvatures = evaluate(loss.functions.curvature, y, eta, s=1.0, loss=loss)
    means, lift = loss.means.at(eta[None]), loss.means.lift
    responses = np.stack([1.0 - y, y])[-len(means) :]
    np.testing.assert_allclose(lift @ slopes[None], means - responses, atol=1e-12)
    np.testing.assert_allclose(lift**2 @ curvatures[None], loss.means.variance(means), atol=1e-12)


@pytest.mark.parametrize("loss", CLASSES, ids=lambda loss: loss.name)
def test_slopes_and_curvatures_of_classes(loss, rng):
    eta = rng.uniform(-2.0, 2.0, size=(loss.n_outputs, 20))
    means, lift, labels = loss.means.at(eta), loss.means.lift, np.eye(loss.n_classes)
    np.testing.assert_allclose(means, loss.chances(eta), atol=1e-14)
    for label in labels:
        slopes = loss.contrasts.T @ (means - label[:, None])
        np.testing.assert_allclose(lift @ slopes, means - label[:, None], atol=1e-12)
    along = np.einsum("ka,nab,kb->kn", lift, loss.curvatures(eta), lift)
    np.testing.assert_allclose(along, loss.means.variance(means), atol=1e-12)


@pytest.mark.parametrize("loss", CLASSES, ids=lambda loss: loss.name)
def test_a_lift_raises_one_class_alone(loss):
    raised = loss.contrasts @ loss.means.lift.T
    np.testing.assert_allclose(
        raised - raised.mean(axis=0), np.eye(loss.n_classes) - 1.0 / loss.n_classes, atol=1e-12
    )


def test_means_stay_finite_far_out_and_other_losses_have_none():
    for loss in (*SCALARS, *CLASSES):
        means = loss.means.at(np.full((loss.n_outputs, 1), 800.0))
        assert np.isfinite(means).all()
        assert np.isfinite(loss.means.predictors(0.0 * means)).all()
    assert Huber(1.0).means is None
