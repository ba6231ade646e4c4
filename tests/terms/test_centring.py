"""Products and powers are encoded by centred columns, and reported in the terms of the formula."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

import privfit as pf
from privfit.data.schema import Schema
from privfit.data.tables import open_table
from privfit.estimators.assumptions import Assumptions
from privfit.estimators.stand_in import stand_in_rows
from privfit.terms.encoder import FormulaEncoder
from tests.terms.formula_table import SAME_AS_FORMULAIC
from tests.terms.formula_table import SCHEMA as MIXED
from tests.terms.formula_table import table as mixed

SCHEMA = Schema(
    {
        "y": {"type": "numeric", "lower": -10, "upper": 30},
        "high": {"type": "categorical", "levels": ["no", "yes"]},
        "age": {"type": "numeric", "lower": 17, "upper": 90},
        "edu": {"type": "numeric", "lower": 1, "upper": 16},
        "sex": {"type": "categorical", "levels": ["F", "M"]},
        "job": {"type": "categorical", "levels": ["a", "b", "c"]},
        "even": {"type": "numeric", "lower": -3, "upper": 3},
    }
)


def table(n, seed=0):
    rng = np.random.default_rng(seed)
    age, edu = rng.uniform(17, 90, n), rng.uniform(1, 16, n)
    sex, job = rng.choice(["F", "M"], n), rng.choice(["a", "b", "c"], n)
    eta = 0.03 * (age - 50) - 0.1 * (edu - 9) + 0.01 * (age - 50) * (edu - 9) + 0.3 * (sex == "M")
    return pd.DataFrame(
        {
            "age": age,
            "edu": edu,
            "sex": sex,
            "job": job,
            "even": rng.uniform(-3, 3, n),
            "y": np.clip(3 + eta + rng.normal(size=n), -10, 30),
            "high": np.where(rng.random(n) < expit(eta), "yes", "no"),
        }
    )


def encoded(formula, rows):
    encoder = FormulaEncoder(f"y ~ {formula}", SCHEMA)
    x = encoder.encode_predictors(open_table(rows))
    return dict(zip(encoder.design.names, x.T, strict=True))


@pytest.mark.parametrize("formula", SAME_AS_FORMULAIC)
def test_coefficients_mean_the_same_in_both_units(formula):
    encoder = FormulaEncoder(formula, MIXED)
    x = encoder.encode_predictors(open_table(mixed(300), needed=encoder.needed))
    raw, design = encoder.design.raw_rows(x), encoder.design
    theta = np.random.default_rng(1).normal(size=x.shape[1])
    matrix, shift = design.reporting_map()
    theirs = raw @ (matrix @ theta + shift)
    size = np.abs(raw) @ np.abs(matrix @ theta)
    assert (np.abs(theirs - design.target.half_width * x @ theta) <= 1e-12 * size).all()
    if design.has_intercept:
        theta[0] = 0.0
    np.testing.assert_allclose(design.encoded_slopes(matrix @ theta), theta, rtol=1e-9, atol=1e-9)


def test_factors_of_a_product_are_centred():
    rows = table(50)
    u, v = (rows["age"] - 53.5) / 36.5, (rows["edu"] - 8.5) / 7.5
    male = (rows["sex"] == "M").astype(float)
    found = encoded("age * edu * sex", rows)
    np.testing.assert_allclose(found["age:edu"], u * v, atol=1e-14)
    np.testing.assert_allclose(found["age:sex[T.M]"], u * male, atol=1e-14)
    np.testing.assert_allclose(found["age:edu:sex[T.M]"], u * v * male, atol=1e-14)
    own_levels = encoded("job + job:age", rows)
    for level in "abc":
        np.testing.assert_allclose(own_levels[f"job[{level}]:age"], u * (rows["job"] == level), atol=1e-14)


def test_powers_are_chebyshev_polynomials_of_the_centred_column():
    rows = table(50)
    u = (rows["age"] - 53.5) / 36.5
    found = encoded("age * edu + I(age ** 2 / 100) + I(age ** 3) + I(age ** 2 / 100):edu", rows)
    square = 2 * u**2 - 1
    np.testing.assert_allclose(found["I(age ** 2 / 100)"], square, atol=1e-13)
    np.testing.assert_allclose(found["I(age ** 3)"], 4 * u**3 - 3 * u, atol=1e-13)
    v = (rows["edu"] - 8.5) / 7.5
    np.testing.assert_allclose(found["I(age ** 2 / 100):edu"], square * v, atol=1e-13)


def test_expressions_are_centred_at_the_middle_of_their_range():
    rows = table(50)
    found = encoded("np.log(age) * edu + edu * I(age * even)", rows)
    low, high = np.log(17), np.log(90)
    u, v = (2 * np.log(rows["age"]) - low - high) / (high - low), (rows["edu"] - 8.5) / 7.5
    np.testing.assert_allclose(found["np.log(age):edu"], u * v, atol=1e-14)
    np.testing.assert_allclose(found["edu:I(age * even)"], v * rows["age"] * rows["even"] / 270, atol=1e-14)


def test_what_takes_columns_that_are_not_in_the_formula_is_not_centred():
    rows = table(50)
    product = rows["age"] * rows["edu"]
    middle, half = (90 * 16 + 17) / 2, (90 * 16 - 17) / 2
    np.testing.assert_allclose(encoded("age:edu", rows)["age:edu"], (product - middle) / half, atol=1e-13)
    for formula in ("0 + age * edu", "age + edu + age:edu - 1"):
        np.testing.assert_allclose(encoded(formula, rows)["age:edu"], product / (90 * 16), atol=1e-14)
    for formula, levels in (("job:age", "a"), ("sex + job:age", "abc")):
        for level in levels:
            column = encoded(formula, rows)[f"job[{level}]:age"]
            np.testing.assert_allclose(column, rows["age"] / 90 * (rows["job"] == level), atol=1e-14)
    one = encoded("age / edu", rows)["age:edu"]  # edu would take age alone, age would take edu
    np.testing.assert_allclose(one, rows["age"] / 90 * (rows["edu"] - 8.5) / 7.5, atol=1e-14)
    square = encoded("I(age ** 2)", rows)["I(age ** 2)"]
    np.testing.assert_allclose(square, (2 * rows["age"] ** 2 - 90**2 - 17**2) / (90**2 - 17**2), atol=1e-13)


def test_a_product_of_columns_around_0_needs_no_margins():
    rows = table(50)
    found = encoded("even:sex + I(even ** 2)", rows)
    np.testing.assert_allclose(found["even:sex[M]"], rows["even"] / 3 * (rows["sex"] == "M"), atol=1e-14)
    np.testing.assert_allclose(found["I(even ** 2)"], 2 * (rows["even"] / 3) ** 2 - 1, atol=1e-14)


def test_encoded_columns_are_far_from_collinear():
    rows = table(20_000)
    formula = "job * age * edu + I(age ** 2) + I(age ** 3)"
    x = np.array(list(encoded(formula, rows).values())).T
    sd = np.sqrt((x**2).mean(axis=0))
    assert np.linalg.cond(x / sd) < 20
    raw = FormulaEncoder(f"y ~ {formula}", SCHEMA).design.raw_rows(x)
    assert np.linalg.cond(raw / np.sqrt((raw**2).mean(axis=0))) > 200


@pytest.mark.parametrize("solver", ["auto", "gradient-descent"])
def test_a_private_fit_is_that_of_columns_centred_by_hand(solver):
    """The encoded rows are the same, so that the same noise is drawn."""
    rows = table(20_000, seed=2)
    options = {"schema": SCHEMA, "epsilon": 2.0, "delta": 1e-6, "random_state": 4, "solver": solver}
    raw = pf.logit("high ~ age * edu + sex", rows, **options)
    hand = pf.logit("high ~ I(age - 53.5) * I(edu - 8.5) + sex", rows, **options)
    names = ["Intercept", "age", "edu", "sex[T.M]", "age:edu"]
    turn = np.eye(5)
    turn[0, 1], turn[0, 2], turn[0, 4] = -53.5, -8.5, 53.5 * 8.5
    turn[1, 4], turn[2, 4] = -8.5, -53.5
    assert list(raw.names) == names
    np.testing.assert_allclose(raw.params, turn @ hand.params, rtol=1e-6)
    np.testing.assert_allclose(raw.bse["age:edu"], hand.bse.iloc[-1], rtol=1e-6)
    np.testing.assert_allclose(raw.cov_params(), turn @ hand.cov_params() @ turn.T, rtol=1e-6)
    point = rows.head(3)
    found, expected = (fit.get_prediction(point).summary_frame() for fit in (raw, hand))
    np.testing.assert_allclose(found["mean_se"], expected["mean_se"], rtol=1e-6)
    by_hand = hand.t_test(" - ".join([hand.names[1], "8.5*" + hand.names[4]]))
    np.testing.assert_allclose(raw.bse["age"], by_hand.bse.iloc[0], rtol=1e-6)
    again = pf.FitResult.from_json(raw.to_json())
    np.testing.assert_array_equal(again.params, raw.params)
    np.testing.assert_array_equal(again.cov_params(), raw.cov_params())


def test_what_noise_hides_is_hidden_in_every_coefficient_that_holds_it():
    """Next to no budget: the interaction is hidden, and so are the effects at 0 of what it is with."""
    rows = table(3_000, seed=3)
    fit = pf.logit("high ~ age * edu + sex", rows, schema=SCHEMA, epsilon=0.2, delta=1e-6, random_state=1)
    assert np.isinf(fit.bse[["age:edu", "age", "edu"]]).all()
    assert (fit.dof[np.isinf(fit.bse)] == np.inf).all()
    assert (fit.pvalues[np.isinf(fit.bse)] == 1.0).all()


@pytest.mark.parametrize(("model", "target"), [("ols", "y"), ("logit", "high")])
def test_guesses_of_a_plan_are_in_the_terms_of_the_formula(model, target):
    formula = f"{target} ~ age * edu + I(age ** 2)"
    guesses = {"age": 0.05, "edu": -0.2, "age:edu": 0.01, "I(age ** 2)": -0.0004}
    kind = "numeric" if model == "ols" else "binary"
    encoder = FormulaEncoder(formula, SCHEMA, target_kind=kind)
    assumptions = Assumptions(coefficients=guesses, **({"residual_sd": 1e-9} if model == "ols" else {}))
    rows = stand_in_rows(encoder, SCHEMA, assumptions)
    x, y = rows.x, rows.y
    raw, design = encoder.design.raw_rows(x), encoder.design
    eta = raw @ [guesses.get(name, 0.0) for name in design.names]
    slopes = design.encoded_slopes(np.array([guesses.get(name, 0.0) for name in design.names]))
    expected = eta / (design.target.half_width if model == "ols" else 1.0)
    np.testing.assert_allclose(x @ slopes - (x @ slopes).mean(), expected - expected.mean(), atol=1e-12)
    if model == "ols":
        fitted = y - y.mean() - (expected - expected.mean())
        np.testing.assert_allclose(fitted, 0.0, atol=1e-6)
    planned = pf.plan(
        formula, n=20_000, schema=SCHEMA, model=model, epsilon=2.0, delta=1e-6,
        assumptions=Assumptions(coefficients=guesses),
    )  # fmt: skip
    by_hand = pf.plan(
        f"{target} ~ I(age - 53.5) * I(edu - 8.5) + I((age - 53.5) ** 2)",
        n=20_000, schema=SCHEMA, model=model, epsilon=2.0, delta=1e-6,
        assumptions=Assumptions(
            coefficients={
                "I(age - 53.5)": 0.05 + 8.5 * 0.01 - 107 * 0.0004,
                "I(edu - 8.5)": -0.2 + 53.5 * 0.01,
                "I(age - 53.5):I(edu - 8.5)": 0.01,
                "I((age - 53.5) ** 2)": -0.0004,
            }
        ),
    )  # fmt: skip
    widths = [dict(zip(one.names, one.forecast.width(), strict=True)) for one in (planned, by_hand)]
    np.testing.assert_allclose(widths[0]["age:edu"], widths[1]["I(age - 53.5):I(edu - 8.5)"], rtol=1e-6)


def test_many_levels_are_no_trouble():
    levels = [f"l{k}" for k in range(3000)]
    schema = Schema({**SCHEMA, "place": {"type": "categorical", "levels": levels}})
    encoder = FormulaEncoder("y ~ place * age", schema)
    x = encoder.encode_predictors(open_table({"place": ["l0", "l7"], "age": [20.0, 30.0]}))
    assert np.count_nonzero(x[1]) == 4
    np.testing.assert_allclose(encoder.design.raw_rows(x)[:, -2999:].sum(axis=1), [0.0, 30.0], atol=1e-12)
