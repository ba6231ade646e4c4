"""Public radii and clips are sizes whose products stay within floating point."""

import pytest

from privfit.errors import InvalidArgument
from privfit.solvers import (
    ClippedGradientDescent,
    ExponentialMechanism,
    NoisySGD,
    ObjectivePerturbation,
    OnlineToBatch,
    ProjectedNoisyGradientDescent,
)

SIZED = [
    (ClippedGradientDescent, "clip"),
    (ExponentialMechanism, "radius"),
    (NoisySGD, "radius"),
    (ObjectivePerturbation, "radius"),
    (OnlineToBatch, "radius"),
    (ProjectedNoisyGradientDescent, "radius"),
]


@pytest.mark.parametrize(("solver", "argument"), SIZED)
@pytest.mark.parametrize("size", [1e300, 1e-300, 0.0, -1.0, float("inf"), float("nan"), "1"])
def test_what_is_no_size_is_refused_by_its_name(solver, argument, size):
    with pytest.raises(InvalidArgument, match=f"^{argument} must"):
        solver(**{argument: size})


@pytest.mark.parametrize(("solver", "argument"), SIZED)
@pytest.mark.parametrize("size", [1e-60, 3, 1e60])
def test_sizes_are_taken(solver, argument, size):
    assert getattr(solver(**{argument: size}), argument) == size


def test_candidates_of_which_all_are_0_leave_nothing_to_choose():
    for candidates in ([[0.0, 0.0]], [[0.0], [0.0]]):
        with pytest.raises(InvalidArgument, match="candidates must not all be 0"):
            ExponentialMechanism(candidates=candidates)
    assert len(ExponentialMechanism(candidates=[[0.0], [1.0]]).candidates) == 2
