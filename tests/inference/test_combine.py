"""One Newton step from averaged gradients: what its noise is."""

import numpy as np
import pytest

from privfit.inference.combine import Anchor, Estimate, anchor, one_step
from privfit.inference.covariance import Bread
from privfit.privacy.mechanisms import gaussian_vector, make_source, smat, svec

from .made_up import step_of

HESSIAN = np.array([[1.0, 0.3, 0.0], [0.3, 0.5, -0.1], [0.0, -0.1, 0.8]])


def bread_of(matrix, sd):
    return Bread(matrix, np.linalg.inv(matrix), sd, np.zeros((len(matrix), 0)))


@pytest.mark.statistical
@pytest.mark.parametrize("sd_gradient", [0.0, 0.004])
def test_the_covariance_of_a_step_is_that_of_its_gradient_and_of_its_bread(sd_gradient):
    """Against 4000 draws of both; entries have standard errors of 2 %, and six of them pass."""
    sd_bread, gradient, rng = 0.003, np.array([0.5, -1.0, 0.7]), np.random.default_rng(20240506)
    source, ends = make_source(12), []
    for noise in sd_gradient * rng.normal(size=(4000, 3)):
        drawn = gaussian_vector(svec(HESSIAN), sensitivity=0.002, mu=1.0, sd=sd_bread, source=source)
        around = Anchor(np.zeros(3), gradient + noise, np.eye(3), sd_gradient)
        ends.append(one_step(around, bread_of(smat(drawn), sd_bread)).theta)
    around = Anchor(np.zeros(3), gradient, np.eye(3), sd_gradient)
    said = one_step(around, bread_of(HESSIAN, sd_bread)).cov_noise
    root = np.linalg.inv(np.linalg.cholesky(said))
    np.testing.assert_allclose(root @ np.cov(np.transpose(ends)) @ root.T, np.eye(3), atol=0.13)


def test_an_estimate_without_steps_has_no_parts():
    around = Anchor(np.zeros(3), np.ones(3), np.eye(3), 0.1)
    assert around.parts.size == Estimate(np.zeros(3), np.eye(3)).parts.size == 0


STEPS = [
    step_of([at, 0.0], [gradient, 1.0], sd, preconditioner=size * np.eye(2))
    for at, gradient, sd, size in ((1.0, 5.0, 0.1, 1.0), (2.0, 7.0, 0.1, 2.0), (6.0, 1.0, 0.2, 3.0))
]


@pytest.mark.parametrize(
    ("sds", "parts", "sd"),
    [(None, [4 / 9, 4 / 9, 1 / 9], 1 / 15), ([0.3, 0.1, 0.3], [1 / 11, 9 / 11, 1 / 11], 0.3 / 11**0.5)],
)
def test_steps_count_by_the_precision_of_their_noise_or_of_what_they_are_said_to_be_off_by(sds, parts, sd):
    """The preconditioner is the last step's, which says what iterates from there on would do."""
    found = anchor(STEPS, sds)
    np.testing.assert_allclose(found.parts, parts)
    np.testing.assert_allclose(found.theta, [np.dot(parts, [1.0, 2.0, 6.0]), 0.0])
    np.testing.assert_allclose(found.gradient, [np.dot(parts, [5.0, 7.0, 1.0]), 1.0])
    assert found.sd == pytest.approx(sd)
    assert found.preconditioner.tolist() == [[3.0, 0.0], [0.0, 3.0]]
    assert found.steps == tuple(STEPS)
