"""Labels without a schema: missing ones count for nothing, and all others are refused alike."""

import datetime
import decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import privfit as pf

RNG = np.random.default_rng(2)
X = RNG.normal(size=(60, 2))
Y = (X[:, 0] + RNG.normal(size=60) > 0).astype(int)
MISSING = [*Y[:3].tolist(), None, *Y[4:].tolist()]
HIDDEN = np.arange(60) == 3
FORMS = {
    "floats": np.where(HIDDEN, np.nan, Y),
    "list": MISSING,
    "objects": np.array(MISSING, dtype=object),
    "text among objects": np.array([str(Y[0]), *MISSING[1:]], dtype=object),
    "masked": np.ma.array(Y, mask=HIDDEN),
    "masked floats": np.ma.array(Y.astype(float), mask=HIDDEN),
    "integers of pandas": pd.Series(MISSING, dtype="Int64"),
    "truth of pandas": pd.Series(MISSING, dtype="boolean"),
    "polars": pl.Series(MISSING),
    "Arrow": pa.array(MISSING),
    "column": pd.DataFrame({"y": MISSING}),
}
OTHERS = [np.inf, 0.5, 2, "x", b"\xff", [1], 1j, datetime.date(2020, 1, 1), decimal.Decimal("0.5"), object()]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataConversionWarning")
@pytest.mark.parametrize("classifier", [pf.LogisticRegression, pf.LinearSVC])
@pytest.mark.parametrize("form", FORMS)
def test_a_missing_label_counts_for_nothing(form, classifier):
    """One stopped the fit with another error than a label that is none, in some forms of a response."""
    model = classifier(solver="non-private", inference=False)
    coef = model.fit(X, FORMS[form]).coef_.copy()
    np.testing.assert_allclose(coef, model.fit(X[~HIDDEN], Y[~HIDDEN]).coef_, rtol=1e-6)


@pytest.mark.parametrize("make", [list, lambda cells: pd.Series(cells, dtype=object)])
def test_what_another_label_is_does_not_show(make):
    said = set()
    for other in OTHERS:
        cells = Y.tolist()
        cells[3] = other
        with pytest.raises(pf.LabelError) as caught:
            pf.LogisticRegression().fit(X, make(cells))
        said.add(str(caught.value))
    assert len(said) == 1


@pytest.mark.parametrize("other", [np.inf, 0.5, 2.0])
def test_other_numbers_are_refused_alike(other):
    with pytest.raises(pf.LabelError, match=r"0/1, -1/1 and true/false\. .* classes= declares"):
        pf.LogisticRegression().fit(X, np.where(HIDDEN, other, Y))


@pytest.mark.parametrize(
    ("y", "classes"),
    [(Y == 1, [False, True]), (FORMS["truth of pandas"], [False, True]), (2 * Y - 1, [-1, 1]), (Y, [0, 1])],
)
def test_which_labels_there_are_follows_from_their_type(y, classes):
    model = pf.LogisticRegression(solver="non-private").fit(X, y)
    assert model.classes_.tolist() == classes


@pytest.mark.parametrize("make", [list, tuple])
@pytest.mark.parametrize("cell", [None, np.nan, 1, 1.0, "true", np.True_, True])
def test_no_cell_of_a_list_decides_which_labels_there_are(cell, make):
    """One that was not true or false made the classes of all others 0 and 1."""
    cells = (Y == 1).tolist()
    cells[3] = cell
    model = pf.LogisticRegression(solver="non-private", inference=False).fit(X, make(cells))
    assert model.classes_.dtype.kind == "i"
    assert model.classes_.tolist() == [0, 1]


@pytest.mark.parametrize("odd", ["abc", 10**400, pd.Timestamp("2020"), [1], datetime.date(2020, 1, 1)])
def test_what_a_cell_is_that_is_no_number_does_not_show(odd):
    cells = X.astype(object)
    cells[3, 1] = odd
    with pytest.raises(pf.SchemaError, match=r"^X must hold numbers; declare text .*get_dummies does$"):
        pf.LogisticRegression().fit(cells, Y)


PREDICTORS = {name: {"type": "numeric", "lower": -4, "upper": 4} for name in ("a", "y")}
FRAME = pd.DataFrame(X, columns=["a", "y"])


def declared(levels):
    response = {"type": "categorical", "levels": levels, "target": True}
    return pf.LogisticRegression(schema=PREDICTORS | {"sick": response}, random_state=0)


@pytest.mark.parametrize(
    ("y", "levels"),
    [(Y, [0, 1]), (2 * Y - 1, [-1, 1]), (Y.astype(bool), [False, True]), (Y.tolist(), [0, 1])],
)
def test_a_schema_may_say_nothing_of_labels_that_need_no_declaration(y, levels):
    exact = declared(levels).fit(FRAME, y)
    model = pf.LogisticRegression(schema=PREDICTORS, random_state=0)
    for rows in (FRAME, X, pl.from_pandas(FRAME)):
        model.fit(rows, y)
        np.testing.assert_array_equal(model.coef_, exact.coef_)
        assert model.classes_.tolist() == levels
        assert model.score(rows, y) == exact.score(rows, y)
        assert (model.result_.target, model.result_.names) == ("y_", ("Intercept", "a", "y"))


def test_classes_may_declare_the_labels_of_which_a_schema_says_nothing():
    y = pd.Series(np.where(Y, "sick", "well"), name="state")
    with pytest.raises(pf.LabelError, match="classes= declares the labels"):
        pf.LogisticRegression(schema=PREDICTORS).fit(FRAME, y)
    model = pf.LogisticRegression(schema=PREDICTORS, classes=["well", "sick"], random_state=0)
    np.testing.assert_array_equal(model.fit(FRAME, y).coef_, declared(["well", "sick"]).fit(FRAME, y).coef_)
    with pytest.raises(pf.InvalidArgument, match="classes is for fits without a schema"):
        declared(["well", "sick"]).set_params(classes=["well", "sick"]).fit(FRAME, y)


@pytest.mark.parametrize(
    "make", [pf.LinearSVC, lambda **given: pf.MEstimator(loss=pf.losses.Logistic(), **given)]
)
def test_other_classifiers_need_no_declaration_either(make):
    model = make(schema=PREDICTORS, random_state=0).fit(FRAME, Y)
    assert model.classes_.tolist() == [0, 1]


def test_labels_need_no_declaration_beside_learned_bounds():
    rows = np.tile(X, (100, 1))
    draft = {"a": {"type": "numeric"}, "b": {"type": "numeric", "lower": -4, "upper": 4}}
    labels = {"type": "categorical", "levels": [0, 1], "target": True}
    fits = [
        pf.LogisticRegression(10.0, schema=schema, scale="private", random_state=0).fit(rows, np.tile(Y, 100))
        for schema in (draft, draft | {"sick": labels})
    ]
    np.testing.assert_array_equal(fits[0].coef_, fits[1].coef_)


@pytest.mark.parametrize("form", [dict, pd.DataFrame, pl.DataFrame])
def test_a_declared_column_that_is_not_beside_y_may_be_the_response(form):
    age, label = np.linspace(20.0, 60.0, 50), np.arange(50) % 2
    schema = {
        "age": {"type": "numeric", "lower": 0, "upper": 100},
        "sick": {"type": "numeric", "lower": 0, "upper": 1},
    }
    with pytest.raises(pf.SchemaError, match=r"'sick' of the schema is not in X; .* target=true"):
        pf.LogisticRegression(schema=schema).fit(form({"age": age}), label)
    schema["sick"]["target"] = True
    model = pf.LogisticRegression(schema=schema).fit(form({"age": age}), label)
    assert list(model.result_.params.index) == ["Intercept", "age"]
