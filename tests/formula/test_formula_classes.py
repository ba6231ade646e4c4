"""`logit` of a response with more than two levels."""

import numpy as np
import pytest
from tests.small_sample import hc1
from tests.terms.formula_table import ROW_SCHEMA, table

from privfit import Incompatible, LogisticRegression
from privfit.formula import logit


@pytest.fixture
def data():
    return table(4000)


def test_it_is_the_fit_of_the_estimator(data):
    columns = ["age", "sex", "job"]
    result = logit("job ~ age + sex", data[columns], schema=ROW_SCHEMA, random_state=1)
    schema = type(ROW_SCHEMA)({name: ROW_SCHEMA[name] for name in columns})
    model = LogisticRegression(schema=schema, random_state=1).fit(data[columns], "job")
    assert result.names == model.result_.names
    np.testing.assert_array_equal(result.estimate, model.result_.estimate)
    assert result.names[0] == "y: Intercept"
    assert result.model == "Multinomial logistic regression"


def test_it_agrees_with_statsmodels(data):
    smf = pytest.importorskip("statsmodels.formula.api")
    codes = data.assign(job=data["job"].astype(str).map({"x": 0, "y": 1, "z": 2}).astype(int))
    exact = smf.mnlogit("job ~ age * C(sex)", codes).fit(disp=0, method="newton", tol=1e-12, cov_type="HC0")
    exact = hc1(exact)
    result = logit("job ~ age * C(sex)", data, schema=ROW_SCHEMA, solver="non-private")
    expected = {
        f"{level}: {name}": value for k, level in enumerate("yz") for name, value in exact.params[k].items()
    }
    np.testing.assert_allclose(result.params[list(expected)], list(expected.values()), rtol=1e-5, atol=1e-6)
    errors = {
        f"{level}: {name}": value for k, level in enumerate("yz") for name, value in exact.bse[k].items()
    }
    np.testing.assert_allclose(result.bse[list(errors)], list(errors.values()), rtol=1e-5)


def test_a_method_for_one_predictor_says_what_takes_more(data):
    with pytest.raises(Incompatible, match="NoisyNewton"):
        logit("job ~ age", data, schema=ROW_SCHEMA, solver="random-round")
