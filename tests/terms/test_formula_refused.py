"""What could mix rows, run code or read the caller's scope is refused in one line, and never runs."""

import os
import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privfit.data.schema import Schema
from privfit.data.tables import open_table
from privfit.errors import FormulaError, SchemaError
from privfit.formula import ols
from privfit.terms.encoder import FormulaEncoder
from tests.terms.formula_table import ROW_SCHEMA, SCHEMA, table

CANARY = "PRIVFIT_FORMULA_CANARY"
SING = f"__import__('os').environ.__setitem__('{CANARY}', 'sang')"

CROSS_ROW = [
    "I(age - np.mean(age))",
    "I(age - age.mean())",
    "age.rank()",
    "age.values",
    "age[0]",
    "age[::-1]",
    "I(age[0] + dose)",
    "lag(age)",
    "lag(age, 1)",
    "rank(age)",
    "np.cumsum(age)",
    "np.sort(age)",
    "np.roll(age, 1)",
    "np.median(age)",
    "np.sum(age)",
    "sum(age)",
    "max(age)",
    "min(age, dose)",
    "len(age)",
    "np.max(age)",
    "np.maximum.reduce(age)",
    "np.maximum.accumulate(age)",
    "np.add.reduce(age)",
    "np.log(age, out=dose)",
    "np.minimum(age, dose, where=age > 0)",
    "np.dot(age, dose)",
    "I(age @ dose)",
    "center(age)",
    "scale(age)",
    "standardize(age)",
    "poly(age, 2)",
    "bs(age, df=4)",
    "bs(age, knots=[0, 1])",
    "cr(age, df=4)",
    "cc(age, df=4)",
    "hashed(job, levels=10)",
    "Q('age')",
    "C(age)",
    "C(sex, levels=['M', 'F'])",
    "C(job, contr.poly)",
    "C(job, contr.sum())",
    "C(job, Sum)",
    "C(sex) * 1",
    "np.where(age > 0, age, dose)",
    "np.random.normal(age)",
    "I(C(sex))",
    "I(sex)",
    "I(sex + 1)",
    "I(sex < 'M')",
    "I('M')",
    "I(age == 'M')",
]

CODE = [
    SING,
    f"I({SING})",
    f"{{{SING}}}",
    f"{SING}(age)",
    f"I(age + {SING})",
    f"C(sex, {SING})",
    f"C({SING})",
    f"np.log({SING})",
    f"np.{SING}(age)",
    f"(lambda: {SING})()",
    f"I((lambda x: {SING})(age))",
    f"I([{SING} for _ in [1]])",
    f"I({{{SING}}})",
    f"I({SING} if age else age)",
    f"I({SING} or age)",
    f"I(age if {SING} else dose)",
    f"I(f'{{{SING}}}')",
    f"I(x := {SING})",
    f"I(*[{SING}])",
    f"I(**{{'x': {SING}}})",
    f"I(age, key={SING})",
    f"age[{SING}]",
    f"I(age < {SING} < dose)",
    f"I(sex == {SING})",
    f"I(not {SING})",
    f"I(await_({SING}))",
    "I(eval('1'))",
    "I(exec('import os'))",
    "I(open('/etc/passwd'))",
    "I(().__class__.__base__.__subclasses__())",
    "I(age.__class__)",
    "I(np.__dict__)",
    "np.load('x')",
    "I(globals())",
    "breakpoint()",
    "I(__builtins__)",
    "I(age)(dose)",
    "I()(age)",
    "I",
    "np",
    "I(np)",
    "I(log)",
]

GRAMMAR = [
    "y ~ age | dose",
    "y ~ age ~ dose",
    "y ~ [age ~ dose]",
    "y ~ age %in% sex",
    "y ~ age + + * dose",
    "y ~ age dose",
    "y ~ (age",
    "y ~ age)",
    "y ~ np.log (dose)",
    "y ~ age +",
    "y ~ 'age'",
    "y ~ 2 * age",
    "y ~ age:2",
    "y ~ 0:age",
    "y ~ age ** 20",
    "y ~ age ** dose",
    "y ~ (age + dose) ** 1.5",
    "y ~ 5",
    "y ~ I(age",
    "y ~ I(age +)",
    "y ~ I(age; dose)",
    "y ~ I(age and dose)",
    "y ~ I((age > 0) & (dose > 2))",
    "y ~ I(0 < age < 1)",
    "y ~ I(age // 2)",
    "y ~ I(age % 2)",
    "y ~ I(True)",
    "y ~ I(1j * age)",
    "y ~ I(None)",
    "y ~ I(10**400 * age)".replace("10**400", "1" + "0" * 400),
    "y ~ " + "-" * 20 + "I(" * 300 + "age" + ")" * 300,
    "y ~ I(" + "-" * 100_000 + "age)",
    "y ~ I(" + "age + " * 20_000 + "age)",
    "y ~ I(" + "age + " * 100 + "age)",
    "y ~ age \x00",
    "y ~ I(age \x00)",
    "y ~ I(age) \ud800",
    "y ~ 0",
    "y ~ -1",
    "y ~ age - age - 1",
    "y ~",
    "y ~ ",
    "~ age",
    "",
    "age",
    "y",
    "log1p(y) ~ age",
    "I(y) ~ age",
    "y + age ~ dose",
    "1 ~ age",
    f"{SING} ~ age",
    f"{{{SING}(age)}} ~ age",
    f"C({SING}) ~ age",
    "y ~ y + age",
    "y ~ age * I(y > 0)",
    "y ~ id",
    "y ~ I(id > 7)",
    "id ~ age",
    "y ~ unknown",
    "unknown ~ age",
    "y ~ I(unknown)",
    "y ~ `unknown one`",
    "y ~ I(`unknown one` + 1)",
    "y ~ C(job, contr.treatment('w'))",
    "y ~ C(job, contr.treatment('x', 'y'))",
    "y ~ C(grade, contr.treatment('1'))",
    "y ~ I(job == 'w')",
    "y ~ sex + C(sex, contr.treatment('M'))",
    "y ~ C(job) + C(job, contr.treatment('z')):age",
    "y ~ age + I(age)",
    "y ~ gain + np.log1p(gain)",
]


def refusal(formula):
    with pytest.raises(FormulaError) as caught:
        FormulaEncoder(formula, SCHEMA)
    assert CANARY not in os.environ
    return str(caught.value)


@pytest.fixture(autouse=True)
def _silent_canary():
    os.environ.pop(CANARY, None)
    yield
    os.environ.pop(CANARY, None)


@pytest.mark.parametrize("term", CROSS_ROW + CODE)
@pytest.mark.parametrize("place", ["y ~ {}", "y ~ age:{} + dose", "y ~ 0 + dose * (sex - {})"])
def test_terms_are_refused_wherever_they_stand(term, place):
    check_message(refusal(place.replace("{}", term)))


@pytest.mark.parametrize("formula", GRAMMAR, ids=lambda text: ascii(text[:40]))
def test_formulas_are_refused(formula):
    check_message(refusal(formula))


@pytest.mark.parametrize(
    ("right", "rest"),
    [
        ("I(age > 0):dose", "'dose'"),
        ("I(age > 0)/dose", "'dose'"),
        ("dose:I(sex == 'M'):job + dose", "'dose:job'"),
        ("I(age > 0):sex", "'sex'"),
        ("I(age > 0) + I(age > 0):sex", "'sex'"),
        ("I(age > 0):I(dose > 2)", "'I(dose > 2)'"),
        ("I(age > 0) - 1", "the intercept"),
        ("0 + {age > 0} + sex", "the intercept"),
    ],
)
def test_a_comparison_that_would_be_another_factor_in_r_is_refused(right, rest):
    message = refusal(f"y ~ {right}")
    check_message(message)
    assert f"add {rest} as a term" in message
    number = re.sub(r"I\((.*?)\)|\{(.*?)\}", lambda found: f"I(({found[1] or found[2]}) * 1)", right)
    FormulaEncoder(f"y ~ {number}", SCHEMA)


@pytest.mark.parametrize("formula", [None, 3, b"y ~ age", ["y ~ age"]])
def test_a_formula_is_text(formula):
    assert "must be a text" in refusal(formula)


def check_message(message):
    assert message.startswith("formula")
    assert len(message.splitlines()) == 1
    assert message.isprintable()
    assert len(message) < 260
    assert ";" in message or "'" in message  # a remedy


@pytest.mark.parametrize(
    ("formula", "names"),
    [
        ("y ~ center(age)", ["'center'", "learn", "schema"]),
        ("y ~ scale(age)", ["'scale'", "learn"]),
        ("y ~ lag(age)", ["'lag'", "mix private rows"]),
        ("y ~ I(age - np.mean(age))", ["'np.mean'", "mix private rows"]),
        ("y ~ bs(age, df=3)", ["'bs'", "knots", "np.maximum"]),
        ("y ~ age.mean()", ["'age.mean'", "mix private rows"]),
        ("y ~ I(age, 1)", ["I takes one argument"]),
        ("y ~ np.minimum(age)", ["minimum takes two arguments"]),
        ("y ~ C(grade, contr.treatment('1'))", ["its levels are 1, 2, 3"]),
        ("y ~ I(age & dose)", ["&", "multiply comparisons"]),
        ("y ~ C(age)", ["'C(age)'", "levels of 'age'"]),
        ("y ~ sexe", ["did you mean 'sex'?"]),
        ("y ~ C(job, contr.treatment('w'))", ["'w'", "no level of 'job'", "'x', 'y', 'z'"]),
        ("log1p(y) ~ age", ["left side", "transform='log1p'"]),
        ("np.log(y) ~ age", ["left side", "transform='log'"]),
        ("sqrt(y) ~ age", ["left side", "transform='sqrt'"]),
        ("y ~ age dose", ["`age` and `dose`"]),
        ("y ~ id", ["privacy unit"]),
        ("y ~ y", ["both the response and a predictor"]),
        ("y ~ age | dose", ["'|'", "several parts"]),
        ("y ~ age ~ dose", ["one ~"]),
        ("y ~ 2*age", ["I(2 * x)"]),
        ("y ~ poly(age, 2)", ["'poly'", "I(x ** 2)"]),
        ("y ~ age^2", ["'age'", "I(x ** 2)", "(a + b) ** 2"]),
        ("y ~ dose + age ** 2", ["'age'", "I(x ** 2)"]),
        ("y ~ np.log1p(dose) ** 2", ["'np.log1p(dose)'", "I(x ** 2)"]),
        ("y ~ age % 2", ["% is not supported", "I(x > 1)"]),
        ("y ~ I(age % 2)", ["%, which is not supported", "I(x > 1)"]),
        ("y ~ I(age ^ 2)", ["^, which is not supported", "I(x ** 2)"]),
        ("y ~ offset(age)", ["'offset'", "is not supported", "logarithm of an exposure", "exposure="]),
        ("y ~ C(job, Sum)", ["'Sum' is not supported", "contr.treatment('base')"]),
        ("y ~ factor(job)", ["'factor'", "C(x)"]),
        ("y ~ relevel(job, 'w')", ["'relevel'", "C(x, Treatment('b'))"]),
        ("y ~ cut(age, 3)", ["'cut'", "I(x > 1)"]),
        ("y ~ ns(age, 3)", ["'ns'", "np.maximum"]),
        ("y ~ Q('age')", ["'Q'", "backticks"]),
        ("y ~ np.tanh(age)", ["'np.tanh'", "known functions are I, C, log"]),
        ("y ~ age + (1 | job)", ["'|'", "random effects"]),
        ("y ~ age %in% job", ["'in'", "a:b"]),
    ],
)
def test_messages_name_the_construct_and_the_remedy(formula, names):
    message = refusal(formula)
    for name in names:
        assert name in message


@pytest.mark.parametrize("term", ["I(age + class)", "np.log(class)", "I(class ** 2)"])
def test_a_column_that_is_a_word_of_python_needs_backticks(term):
    number = {"type": "numeric", "lower": 1, "upper": 3}
    schema = {"y": number, "age": number, "class": number}
    with pytest.raises(
        FormulaError, match="write the column 'class' in backticks, as it is a word of Python"
    ):
        FormulaEncoder(f"y ~ {term}", Schema(schema))
    quoted = FormulaEncoder(f"y ~ {term.replace('class', '`class`')}", Schema(schema))
    assert "class" in quoted.needed
    del schema["class"]
    with pytest.raises(FormulaError, match="check its brackets and operators"):
        FormulaEncoder(f"y ~ {term}", Schema(schema))


@pytest.mark.parametrize(
    "right", ["pid", "age + pid", "C(pid)", "I(pid > 3)", "np.log(pid)", "I(pid == 'a')"]
)
def test_an_identifier_is_told_apart_from_a_column_that_is_not_declared(right):
    schema = Schema(ROW_SCHEMA.to_dict() | {"pid": {"type": "identifier"}})
    with pytest.raises(FormulaError, match="'pid' identifies the privacy unit and cannot be a predictor"):
        FormulaEncoder(f"y ~ {right}", schema)


def test_the_callers_variables_are_out_of_reach():
    secret = np.arange(10.0)
    assert len(secret) == 10
    for formula in (
        "y ~ secret",
        "y ~ I(age + secret)",
        "y ~ np.log(secret)",
        "y ~ SCHEMA",
        "y ~ I(age + CANARY)",
    ):
        assert "is not in the schema" in refusal(formula)


def many(count, levels=None):
    column = {"type": "numeric", "lower": 0, "upper": 2}
    if levels is not None:
        column = {"type": "categorical", "levels": list(range(levels))}
    return Schema({"y": SCHEMA["y"], **{f"a{k}": column for k in range(count)}})


@pytest.mark.parametrize(
    ("schema", "join", "why"),
    [
        (many(60), "*", "more than 100000 terms"),
        (many(60), ") * (1 + ", "more than 100000 terms"),
        (many(11, 2), ":", "at most 10 categorical columns"),
        (many(11, 2), "/", "at most 10 categorical columns"),
        (many(4, 1000), ":", "more than 100000 columns"),
    ],
)
def test_a_short_formula_cannot_ask_for_all_the_memory(schema, join, why):
    text = join.join(name for name in schema if name != "y")
    with pytest.raises(FormulaError, match=why) as caught:
        FormulaEncoder(f"y ~ ({text})", schema)
    check_message(str(caught.value))


@pytest.mark.parametrize("power", ["**4", "**3**3", "**2**2**2"])
def test_powers_are_counted_before_they_are_multiplied_out(power):
    schema = many(60)
    formula = f"y ~ ({' + '.join(name for name in schema if name != 'y')}){power}"
    with pytest.raises(FormulaError, match="formula: "):
        FormulaEncoder(formula, schema)


def test_what_is_large_but_can_be_fitted_is_allowed():
    assert len(FormulaEncoder("y ~ .**3", many(20)).design.names) == 1351
    assert len(FormulaEncoder("y ~ a0*a1*a2*a3*a4*a5", many(6, 2)).design.names) == 64
    assert len(FormulaEncoder("y ~ ((a0 + a1)**4)**4", many(2)).design.names) == 4


def test_columns_with_names_of_functions_are_columns():
    schema = Schema(dict.fromkeys(("y", "log", "np", "C", "lambda", "f0", "quoted_0"), SCHEMA["dose"]))
    encoder = FormulaEncoder("y ~ log(log) + np + C:f0 + I(`lambda` + quoted_0)", schema)
    assert encoder.design.names == ("Intercept", "log(log)", "np", "I(`lambda` + quoted_0)", "C:f0")


def test_a_refused_formula_is_refused_before_the_data_are_opened(tmp_path):
    with pytest.raises(FormulaError):
        ols("y ~ I(age - np.mean(age))", tmp_path / "no such file.csv", schema=ROW_SCHEMA)


def test_errors_of_a_fit_hold_no_cell():
    data = table(50)
    data["age"] = pd.date_range("1987-06-05", periods=50)
    with pytest.raises(SchemaError, match="'age' has the type") as caught:
        ols("y ~ age", data, schema=ROW_SCHEMA)
    assert "1987" not in str(caught.value)


OPERATORS = [*"()[]{}+-*/:^~|.,'\"`%\\<>&@", "**", "=="]
WORDS = [
    "y",
    "age",
    "dose",
    "sex",
    "job",
    "id",
    "np",
    "log",
    "0",
    "1",
    "2",
    "0.5",
    "1e9",
    "'M'",
    "lambda",
    "x:",
]
CALLS = ["I(", "C(", "np.log(", "np.maximum(", "contr.treatment(", "age.mean()", "if", "else", "for", "not"]
PIECES = st.sampled_from(OPERATORS + WORDS + CALLS) | st.text(max_size=2)


@settings(deadline=None, max_examples=400)
@given(st.lists(PIECES, max_size=9), st.sampled_from(["", " "]))
def test_any_text_is_a_design_or_a_refusal(pieces, space):
    try:
        encoder = FormulaEncoder("y ~ " + space.join(pieces), SCHEMA)
    except FormulaError as error:
        check_message(str(error))
    else:
        assert set(encoder.needed) <= set(SCHEMA) - {"id"}
        x = encoder.encode_predictors(open_table(table(5)))
        assert np.abs(x).max() <= 1.0


@pytest.mark.parametrize("right", ["a*b + `a:b`", "g + `g[T.c]`", "0 + a + b + a:b + `a:b`"])
def test_two_design_columns_of_one_name_are_a_mistake_of_the_formula(right):
    number = {"type": "numeric", "lower": 0, "upper": 1}
    entries = dict.fromkeys(("a", "b", "a:b", "g[T.c]", "y"), number)
    schema = Schema({**entries, "g": {"type": "categorical", "levels": ["a", "b", "c"]}})
    with pytest.raises(FormulaError, match="two design columns have the same name"):
        FormulaEncoder(f"y ~ {right}", schema)


@pytest.mark.parametrize(("term", "name"), [("hours-per-week", "hours-per-week"), ("my x", "my x")])
def test_a_name_that_needs_backticks_is_shown_in_them(term, name):
    number = {"type": "numeric", "lower": 0, "upper": 1}
    schema = Schema({"y": number, name: number})
    with pytest.raises(FormulaError, match=f"write names like '{name}' in backticks"):
        FormulaEncoder(f"y ~ {term}", schema)
    assert name in FormulaEncoder(f"y ~ `{name}`", schema).needed
