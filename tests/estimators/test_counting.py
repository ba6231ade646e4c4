"""How much stand-in rows count, by the rule of a fit and what is assumed."""

import numpy as np
import pytest
from scipy import stats

from privfit.data.declarations import NumericColumn
from privfit.data.shares import ShareRule
from privfit.errors import InvalidArgument
from privfit.estimators.assumptions import Assumptions
from privfit.estimators.counting import (
    counted,
    counting_in_words,
    sampling_part,
    stand_in_rule,
    uneven,
    usual_weight,
)

WEIGHTS = ("wt", NumericColumn(0.0, 8.0, weight=True))
BOTH = ShareRule("pid", 4, WEIGHTS)
ALIKE = "; these rows alike, for which intervals are longest: intraclass says how alike they are"
LEAST = ", at which noise is least: "
SAME = ", all alike, for which intervals are shortest: sd says how they vary"


def usual(rule, assumptions):
    """The weights of five rows that are alike."""
    return np.full(5, 1.0 if rule.weights is None else usual_weight(*rule.weights, assumptions))


def share(rule, **guesses):
    """What each stand-in row counts."""
    assumptions = Assumptions(**guesses)
    counts = counted(stand_in_rule(rule, assumptions), usual(rule, assumptions))
    if counts is None:
        return 1.0
    found = counts.among(np.ones(5, dtype=np.bool_))
    assert counts.n_units == found.size == 5
    assert np.ptp(found) == 0.0
    return pytest.approx(found[0], rel=1e-12)


@pytest.mark.parametrize(
    ("rule", "guesses", "wanted"),
    [
        (ShareRule(), {}, 1.0),
        (ShareRule("pid"), {}, 1.0),
        (ShareRule("pid"), {"mean_rows": 3.0}, 1.0),
        (ShareRule("pid", 4), {}, 1.0),
        (ShareRule("pid", 4), {"mean_rows": 1.0}, 0.25),
        (ShareRule("pid", 4), {"mean_rows": 3.0}, 0.75),
        (ShareRule("pid", 4), {"mean_rows": 4.0}, 1.0),
        (ShareRule("pid", 4), {"mean_rows": 9.0}, 1.0),
        (ShareRule(weights=WEIGHTS), {}, 1.0),
        (ShareRule(weights=WEIGHTS), {"mean_weight": 2.0}, 0.25),
        (ShareRule(weights=WEIGHTS), {"mean_weight": 8.0}, 1.0),
        (BOTH, {"mean_weight": 6.0, "mean_rows": 2.0}, 0.375),
        (BOTH, {"mean_weight": 6.0}, 0.75),
        (BOTH, {"mean_rows": 2.0}, 0.5),
    ],
)
def test_a_row_counts_what_those_of_a_unit_do_on_average(rule, guesses, wanted):
    assert share(rule, **guesses) == wanted


def test_they_are_units_of_one_row_each():
    """Where rows count alike by themselves there is no rule."""
    assert stand_in_rule(ShareRule(), Assumptions()) == ShareRule()
    assert stand_in_rule(BOTH, Assumptions()).unit is None
    assert counted(ShareRule(), np.ones(5)) is None


@pytest.mark.parametrize(
    ("rule", "guesses", "words"),
    [
        (ShareRule(), {}, ""),
        (ShareRule("pid"), {"mean_rows": 2.0}, f"; 2 rows for each value of pid{ALIKE}"),
        (
            ShareRule("pid"),
            {},
            "; any number of rows for each value of pid: mean_rows says how many there are on average"
            + ALIKE,
        ),
        (
            ShareRule("pid", 2),
            {},
            f"; 2 rows for each value of pid{LEAST}mean_rows says how many there are on average{ALIKE}",
        ),
        (
            ShareRule("pid", 3),
            {"mean_rows": 2.0, "intraclass": 0.25},
            "; 2 rows for each value of pid; an intraclass correlation of 0.25",
        ),
        (
            ShareRule(weights=WEIGHTS),
            {},
            f"; survey weights of 8, their bound{LEAST}mean_weight says what they are on average",
        ),
        (ShareRule(weights=WEIGHTS), {"mean_weight": 8.0}, f"; survey weights of 8, of at most 8{SAME}"),
        (
            BOTH,
            {"mean_weight": 6.5, "mean_rows": 1.5},
            f"; survey weights of 6.5, of at most 8{SAME}; 1.5 rows for each value of pid{ALIKE}",
        ),
    ],
)
def test_what_is_assumed_is_said(rule, guesses, words):
    assumptions = Assumptions(**guesses)
    assert counting_in_words(rule, assumptions, usual(rule, assumptions)) == words


def test_beside_a_reference_other_guesses_say_how_weights_are():
    """There ``sd`` is refused, so that no remedy is to name it."""
    rule, assumptions = ShareRule(weights=WEIGHTS), Assumptions(reference={"age": [1.0]})
    full, alike = (counting_in_words(rule, assumptions, np.full(5, each)) for each in (8.0, 2.0))
    assert full.endswith(f"8, their bound{LEAST}mean_weight says what they are on average")
    assert alike.endswith("intervals are shortest: a reference with uneven ones says how they vary")


def test_weights_that_vary_are_said_to():
    words = counting_in_words(ShareRule(weights=WEIGHTS), Assumptions(), np.array([2.0, 8.0]))
    assert words == "; survey weights of 5 with standard deviation 3.0, of at most 8"


def test_the_middle_of_weights_is_said_as_their_mean():
    with pytest.raises(InvalidArgument, match=r"center is about no weights, as 'wt' is; give mean_weight$"):
        usual_weight(*WEIGHTS, Assumptions(center={"wt": 2.0}))
    assert usual_weight(*WEIGHTS, Assumptions(center={"age": 2.0})) == 8.0


def test_uneven_numbers_are_log_normal_within_their_bounds():
    chance, column = (np.arange(100_000) + 0.5) / 100_000, NumericColumn(0.1, 40.0)
    found = uneven(column, 2.0, 1.0, chance)
    np.testing.assert_allclose([found.mean(), found.std()], [2.0, 1.0], rtol=1e-3)
    np.testing.assert_allclose(stats.skew(np.log(found)), 0.0, atol=1e-3)
    assert uneven(column, 2.0, 50.0, chance).min() == 0.1
    assert uneven(column, 2.0, 50.0, chance).max() == 40.0
    np.testing.assert_array_equal(uneven(column, 2.0, 0.0, chance), 2.0)


@pytest.mark.parametrize(
    ("rule", "guesses", "wanted"),
    [
        (ShareRule(), {}, 1.0),
        (ShareRule("pid"), {}, 1.0),
        (ShareRule("pid", 4), {}, 1.0),
        (ShareRule("pid", 4), {"intraclass": 1.0}, 1.0),
        (ShareRule("pid", 4), {"intraclass": 0.0}, 0.25),
        (ShareRule("pid", 4), {"intraclass": 0.2}, 0.4),
        (ShareRule("pid", 4), {"intraclass": 0.2, "mean_rows": 2.0}, 0.6),
        (ShareRule("pid", 4), {"intraclass": 0.1, "mean_rows": 9.0}, 0.2),
        (BOTH, {"intraclass": 0.0, "mean_rows": 2.0}, 0.5),
    ],
)
def test_rows_of_a_unit_that_are_not_alike_say_more(rule, guesses, wanted):
    assert sampling_part(rule, Assumptions(**guesses)) == pytest.approx(wanted)


@pytest.mark.parametrize("rule", [ShareRule(), ShareRule("pid"), ShareRule(weights=WEIGHTS)])
def test_rows_of_no_unit_have_no_correlation(rule):
    with pytest.raises(InvalidArgument, match="intraclass goes with units of several rows"):
        sampling_part(rule, Assumptions(intraclass=0.5))
    for given in (-0.1, 1.1):
        with pytest.raises(InvalidArgument, match="intraclass"):
            Assumptions(intraclass=given)


@pytest.mark.parametrize(
    ("rule", "guesses", "message"),
    [
        (ShareRule(), {"mean_weight": 1.0}, "mean_weight goes with weights"),
        (ShareRule("pid", 2), {"mean_weight": 1.0}, "mean_weight goes with weights"),
        (ShareRule(), {"mean_rows": 2.0}, "mean_rows goes with unit"),
        (ShareRule(weights=WEIGHTS), {"mean_rows": 2.0}, "mean_rows goes with unit"),
        (BOTH, {"mean_weight": 8.1}, "at most the bound of the weights, 8, got 8.1"),
        (BOTH, {"mean_weight": 0.0}, "mean_weight must be positive"),
        (BOTH, {"mean_rows": 0.9}, "mean_rows must be at least 1, got 0.9"),
    ],
)
def test_guesses_that_contradict_the_rule_are_refused(rule, guesses, message):
    with pytest.raises(InvalidArgument, match=message):
        share(rule, **guesses)
