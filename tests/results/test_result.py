import pickle
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

from privfit.errors import Incompatible, InvalidArgument
from privfit.inference.wald import JointTest
from privfit.results import FitResult
from privfit.results.contrasts import WaldTest
from privfit.results.form import ModelForm

COLUMNS = ["Intercept", "age", "C(sex)[T.Male]", "hours", "C(sex)[T.Male]:age"]


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(7)
    X = np.column_stack([np.ones(200), rng.normal(size=(200, 4))])
    y = X @ [0.3, 1.0, -0.5, 0.0, 0.2] + rng.normal(size=200)
    return pd.DataFrame(X, columns=COLUMNS), y


@pytest.fixture(scope="module", params=["ols", "logit"])
def reference(request, table):
    X, y = table
    if request.param == "ols":
        return sm.OLS(y, X).fit()
    return sm.Logit((y > 0).astype(float), X).fit(disp=0)


@pytest.fixture
def same(reference, result):
    """Our result from statsmodels' estimate and covariance, a quarter of it called noise."""
    cov = reference.cov_params().to_numpy()
    dof = np.full(5, reference.df_resid if reference.use_t else np.inf)
    return replace(result, estimate=reference.params, cov_sampling=0.75 * cov, cov_noise=0.25 * cov, dof=dof)


def test_table_agrees_with_statsmodels(same, reference):
    pd.testing.assert_series_equal(same.params, reference.params, check_names=False)
    pd.testing.assert_series_equal(same.bse, reference.bse, check_names=False)
    pd.testing.assert_series_equal(same.zvalues, reference.tvalues, check_names=False)
    pd.testing.assert_series_equal(same.pvalues, reference.pvalues, check_names=False, rtol=1e-9)
    pd.testing.assert_frame_equal(same.cov_params(), reference.cov_params())
    assert same.noise_share.to_numpy() == pytest.approx(0.25)


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.999])
def test_intervals_agree_with_statsmodels(same, reference, level):
    ours = same.conf_int(level)
    assert list(ours.columns) == ["lower", "upper"]
    theirs = reference.conf_int(alpha=1 - level)
    pd.testing.assert_frame_equal(ours, theirs.set_axis(["lower", "upper"], axis=1))


@pytest.mark.parametrize(
    ("R", "r"),
    [
        (np.eye(5)[1:], np.zeros(4)),
        (np.array([[0, 1.0, 1, 0, 0], [0, 0, 0, 2, -1]]), np.array([0.4, 0.1])),
        (np.eye(5)[[3]], np.zeros(1)),
    ],
)
def test_wald_agrees_with_statsmodels(same, reference, R, r):
    """But for degrees of freedom, which are those of a matrix here, and of one number there."""
    theirs = reference.wald_test((R, r), scalar=True)
    ours = same.wald_test(R, r)
    lost = len(R) - 1 if reference.use_t else 0
    left = reference.df_resid - lost
    assert ours.statistic == pytest.approx(float(theirs.statistic) * left / (left + lost), rel=1e-9)
    assert ours.df == len(R)
    if reference.use_t:
        assert ours.df_denom == left
    else:
        assert ours.pvalue == pytest.approx(float(theirs.pvalue), rel=1e-8)
    assert ours.distribution.startswith("F" if reference.use_t else "chi2")


def test_wald_from_text(same):
    text = same.wald_test("age = 0.4, 2*hours - C(sex)[T.Male]:age = 0.1")
    array = same.wald_test([[0, 1, 0, 0, 0], [0, 0, 0, 2, -1]], [0.4, 0.1])
    assert text == array
    assert text.null == "age = 0.4, 2*hours - C(sex)[T.Male]:age = 0.1"


def test_wald_null_in_words(same):
    assert same.wald_test([0, 1, 0, 0, 0]).null == "age = 0"
    assert same.wald_test("age").null == "age = 0"


def test_wald_text_and_values_exclude_each_other(result):
    with pytest.raises(InvalidArgument, match="r must be None"):
        result.wald_test("age = 0", 1)


def test_combinations_by_matrix_and_values_are_those_of_text(result):
    text = result.t_test("age = 0.03, C(sex)[T.Male] - 2*age = 1.1")
    array = result.t_test([[0, 1, 0, 0, 0], [0, -2, 1, 0, 0]], [0.03, 1.1])
    np.testing.assert_array_equal(array.null, [0.03, 1.1])
    np.testing.assert_allclose(array.zvalues, (array.effect - [0.03, 1.1]) / array.se)
    np.testing.assert_array_equal(array.pvalues, text.pvalues)
    assert str(array) == str(text)


def test_frames_and_series_are_read_by_the_names_of_coefficients(result):
    by_name = pd.Series(0.0, index=result.names)
    by_name["age"], by_name["hours"] = 1.0, -2.0
    backwards = by_name[::-1]
    for R in (by_name, backwards, backwards.to_frame().T, by_name.tolist(), pd.Series(by_name.tolist())):
        assert result.t_test(R, 0.5).names == ("age - 2*hours",)
        assert result.wald_test(R, 0.5).null == "age - 2*hours = 0.5"
    for wrong in (by_name.rename({"age": "Age"}), by_name[1:], by_name.rename({"age": "hours"})):
        with pytest.raises(InvalidArgument, match="each by its name once"):
            result.t_test(wrong)


def test_infinite_noise_concludes_nothing(result):
    assert result.bse["hours"] == np.inf
    assert result.zvalues["hours"] == 0
    assert result.pvalues["hours"] == 1
    assert result.conf_int().loc["hours"].tolist() == [-np.inf, np.inf]
    assert result.noise_share["hours"] == 1
    assert result.wald_test("hours = 0").pvalue == 1
    assert result.wald_test("age = 0").pvalue < 1e-9


def words(shown):
    return " ".join(str(shown).split())


def test_a_wald_test_in_words_and_in_a_notebook():
    test = WaldTest(JointTest(3.0, 2, np.inf), "a = b = 0", "", "NOT PRIVATE")
    assert str(test) == "NOT PRIVATE\nWald test of H0: a = b = 0\nstatistic 3, chi2(2), p-value 0.2231"
    html = test._repr_html_()
    assert html.count("NOT PRIVATE") == 2
    for shown in ("<caption>Wald test</caption>", ">a = b = 0<", ">chi2<", ">3.000<", ">inf<", ">0.223<"):
        assert shown in html
    html = WaldTest(JointTest(np.nan, 2, 0.0), "a < b = 0", "too few rows")._repr_html_()
    for shown in (">a &lt; b = 0<", ">none<", ">1.000<", "cannot be tested, and its p-value is 1: too few"):
        assert shown in html
    assert "nan" not in html


HIDDEN = {
    True: "the privacy noise left no usable {}, or the method has not come near the optimum, so nothing "
    "can be concluded about {}. More rows",
    False: "the rows do not determine {1}. Columns may be collinear",
}


def with_terms(fit, *, noisy):
    """Return a result with the term ``C(sex)`` and an infinite variance, of a fit with or without noise."""
    releases = tuple(replace(one, mu=one.mu if noisy else np.inf) for one in fit.plan.solver_releases)
    return replace(
        fit,
        statement=replace(fit.statement, private=False),
        plan=replace(fit.plan, solver_releases=releases),
        form=ModelForm(
            fit.names, tuple(name.replace("[T.Male]", "") for name in fit.names), "logit", ("no", "yes")
        ),
    )


@pytest.mark.parametrize("noisy", [True, False])
def test_every_table_explains_infinite_standard_errors(result, noisy):
    fit = with_terms(result, noisy=noisy)
    of_error = HIDDEN[noisy].format("standard error", "this combination")
    assert f"std err inf or nan: {of_error}" in words(fit.t_test())
    assert ("another reference level" in words(fit.t_test())) == noisy
    assert "std err inf" not in words(fit.t_test("age = 0"))
    of_test = HIDDEN[noisy].format("covariance", "these coefficients")
    for test in (fit.wald_test("hours = age = 0"), fit.compare_without("hours")):
        assert f"cannot be tested, p-value 1: {of_test}" in words(test)
        assert "nan" not in words(test)
    assert "cannot" not in words(fit.wald_test("age = 0"))


@pytest.mark.parametrize("noisy", [True, False])
def test_a_table_of_terms_says_which_cannot_be_tested(result, noisy):
    fit = with_terms(result, noisy=noisy)
    tests = fit.wald_test_terms()
    assert np.isnan(tests.summary_frame().loc["hours", "F"])
    (line,) = [line for line in str(tests).splitlines() if line.startswith("hours ")]
    assert line.split() == ["hours", "none", "1", "none", "1.000"]
    said = HIDDEN[noisy].format("covariance", "these coefficients")
    assert f"F none: the term cannot be tested, and its p-value is 1: {said}" in words(tests)
    assert "none" not in words(replace(fit, cov_noise=np.zeros((5, 5))).wald_test_terms())


def test_a_statistic_that_cannot_be_computed_is_no_number(result):
    broken = replace(result, cov_sampling=np.diag([-1.0, -1e-7, 1.0, 1.0, 1.0]))
    for shown in (broken.summary(), broken.t_test()):
        (line,) = [line for line in str(shown).splitlines() if line.startswith("Intercept ")]
        assert line.split()[2:5] == ["nan", "none", "1.000"]


@pytest.mark.parametrize("adjust", ["bonferroni", "holm", "fdr_bh"])
def test_a_table_without_intervals_says_nothing_of_them(result, adjust):
    fit = replace(result, form=ModelForm(result.names, result.names, "logit", ("no", "yes")))
    terms, combinations = words(fit.wald_test_terms(adjust=adjust)), words(fit.t_test(adjust=adjust))
    assert "P-values are adjusted by" in terms
    assert "nterval" not in terms
    kept = "Intervals are adjusted, too" if adjust == "bonferroni" else "Intervals are not adjusted."
    assert kept in combinations


def test_negative_noisy_variance_concludes_nothing(result):
    broken = replace(result, cov_sampling=np.diag([-1.0, -1e-7, 1.0, 1.0, np.nan]))
    assert broken.bse.isna().tolist() == [True, False, False, False, True]
    assert broken.pvalues["Intercept"] == 1
    assert broken.noise_share["age"] == 1  # the noise alone is more than the sum
    assert broken.noise_share.isna().tolist() == [True, False, False, False, True]
    assert "no usable standard error" in " ".join(str(broken.summary()).split())


def test_finite_dof_widen(result):
    normal = replace(result, dof=np.full(5, np.inf))
    t = replace(result, dof=np.full(5, 4.0))
    width, wider = (r.conf_int()["upper"] - r.conf_int()["lower"] for r in (normal, t))
    assert (wider / width)["age"] == pytest.approx(2.7764451 / 1.9599640)
    assert t.pvalues["C(sex)[T.Male]:age"] > normal.pvalues["C(sex)[T.Male]:age"]


def test_public_facts(result):
    assert result.nobs == 48842
    assert result.private
    assert result.privacy is result.statement
    assert repr(result) == (
        "<FitResult: Logistic regression of income, 5 coefficients, 48842 rows; "
        "(ε = 1, δ = 1e-06)-DP, replace one row; μ = 0.2367>"
    )


@pytest.mark.parametrize("name", ["bse", "zvalues", "pvalues", "noise_share"])
def test_properties_need_inference(estimate_only, name):
    with pytest.raises(Incompatible, match=f"{name}.*inference=True"):
        getattr(estimate_only, name)


def test_methods_need_inference(estimate_only):
    for call in (
        estimate_only.conf_int,
        estimate_only.cov_params,
        lambda: estimate_only.wald_test("age = 0"),
    ):
        with pytest.raises(Incompatible, match="inference=True"):
            call()
    assert estimate_only.params["age"] == 0.041234
    assert "inference=True" in str(estimate_only.summary())


@pytest.mark.parametrize("level", [0, 1, 95, "0.95"])
def test_level_is_checked(result, level):
    for call in (result.conf_int, result.summary):
        with pytest.raises(InvalidArgument, match="level"):
            call(level=level)


def test_alpha_in_the_place_of_level_is_refused(result):
    """statsmodels' first argument is alpha: 0.05 there must not become an interval of 5 %."""
    for table in (result, result.t_test("age = 0")):
        for call in (table.conf_int, table.summary):
            with pytest.raises(InvalidArgument, match=r"alpha=0\.05 is level=0\.95"):
                call(0.05)
            with pytest.raises(InvalidArgument, match=r"^alpha: level is .* alpha=0\.05 is level=0\.95"):
                call(alpha=0.05)
    assert result.conf_int(0.95).equals(result.conf_int())


def test_level_is_checked_without_inference(estimate_only):
    with pytest.raises(InvalidArgument, match="level"):
        estimate_only.summary(level=95)


def test_frozen(result):
    with pytest.raises(FrozenInstanceError):
        result.model = "other"
    with pytest.raises(ValueError, match="read-only"):
        result.estimate[0] = 0
    mine = result.params
    mine.iloc[0] = 99
    assert result.params.iloc[0] == -3.4567


def test_arguments_are_copied(result):
    mine = np.zeros(5)
    other = replace(result, estimate=mine)
    mine[0] = 1
    assert other.estimate[0] == 0


@pytest.mark.parametrize(
    "changes",
    [
        {"estimate": np.zeros(4)},
        {"dof": np.zeros((5, 1))},
        {"cov_noise": np.zeros(5)},
        {"cov_noise": None},
        {"dof": None},
        {"names": ("a", "a", "b", "c", "d")},
    ],
)
def test_contradicting_fields(result, changes):
    with pytest.raises(InvalidArgument):
        replace(result, **changes)


def test_a_plan_without_noise_cannot_be_private(result):
    exact = replace(result.plan.solver_releases[0], mu=np.inf, sd=0.0)
    plan = replace(result.plan, solver_releases=(exact,))
    with pytest.raises(InvalidArgument, match="private"):
        replace(result, plan=plan)


def test_pickle_keeps_everything_and_does_not_grow_with_rows(result):
    back = pickle.loads(pickle.dumps(result))  # noqa: S301
    assert isinstance(back, FitResult)
    assert back.to_json() == result.to_json()
    sizes = [len(pickle.dumps(replace(result, plan=replace(result.plan, n_rows=n)))) for n in (100, 10**9)]
    assert abs(sizes[0] - sizes[1]) <= 8


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("tvalues", "zvalues"),
        ("f_test", "wald_test"),
        ("rsquared", "private rows"),
        ("resid", "private rows"),
        ("fittedvalues", "predict"),
        ("aic", "compare_without"),
        ("bic", "likelihood"),
        ("llf", "likelihood"),
        ("df_resid", "dof"),
        ("summary2", "summary"),
        ("fit", "fitted already"),
        ("save", "to_json"),
        ("compare_lr_test", "compare_without"),
        ("compare_f_test", "compare_without"),
        ("t_test_pairwise", "t_test"),
        ("pred_table", "private rows"),
        ("converged", "inf"),
        ("mle_retvals", "inf"),
        ("get_robustcov_results", "sandwich"),
        ("cov_type", "sandwich"),
    ],
)
def test_names_of_statsmodels_are_explained(result, name, said):
    with pytest.raises(AttributeError, match=f"'FitResult' object has no attribute '{name}': .*{said}"):
        getattr(result, name)
    with pytest.raises(AttributeError, match=r"'Estimates' .* 'pvalue': it is called pvalues"):
        result.t_test("age = 0").pvalue  # noqa: B018
    with pytest.raises(AttributeError, match=r"no attribute 'nonsense'$"):
        result.nonsense  # noqa: B018


def test_joint_tests_have_degrees_of_freedom_of_their_own(result):
    """Those of single coefficients may be few where a variance is what was released of one alone."""
    q = len(result.names)
    single, joint = replace(result, dof=np.full(q, 6.0)), np.full(q, 40.0)
    both = replace(single, joint_dof=joint)
    R = np.eye(q)[1:4]
    assert single.wald_test(R).df_denom == 4.0
    assert both.wald_test(R).df_denom == 38.0
    assert both.wald_test(R[:1]).df_denom == single.wald_test(R[:1]).df_denom == 6.0
    again = FitResult.from_json(both.to_json())
    np.testing.assert_array_equal(again.joint_dof, joint)
    assert FitResult.from_json(single.to_json()).joint_dof is None


def test_a_joint_test_says_that_there_are_too_many_hypotheses(same):
    """Although every standard error is finite."""
    test = replace(same, dof=np.full(5, 2.0)).wald_test(np.eye(5)[1:4])
    assert (test.testable, test.pvalue) == (False, 1.0)
    assert "degrees of freedom for so many hypotheses" in str(test)


def test_combinations_that_follow_from_others_are_tested_one_by_one(same):
    text = "age, C(sex)[T.Male], age - C(sex)[T.Male]"
    found = same.t_test(text, adjust="holm")
    each = [same.t_test(one).pvalues.iloc[0] for one in text.split(", ")]
    assert len(found.pvalues) == 3
    assert (np.asarray(found.pvalues) >= np.asarray(each)).all()
    np.testing.assert_allclose(same.t_test(text).pvalues, each)
    with pytest.raises(InvalidArgument, match="t_test"):
        same.wald_test(text)
