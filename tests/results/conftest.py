from dataclasses import replace

import numpy as np
import pytest
from handmade_result import make_result


@pytest.fixture
def result():
    return make_result()


@pytest.fixture
def seeded(result):
    statement = replace(result.statement, private=False, noise="seeded: not private")
    return replace(result, statement=statement)


@pytest.fixture
def noiseless(result):
    statement = replace(
        result.statement, private=False, epsilon=np.inf, delta=0.0, mu=np.inf, noise="none: not private"
    )
    return replace(result, statement=statement, plan=replace(result.plan, mu=np.inf))


@pytest.fixture
def estimate_only(result):
    return replace(result, cov_sampling=None, cov_noise=None, dof=None)
