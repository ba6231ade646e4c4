import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privfit.errors import InvalidArgument
from privfit.results.constraints import describe_constraints, hypotheses, parse_constraints
from privfit.results.spelling import is_in_other_words, is_spelled

NAMES = (
    "Intercept",
    "age",
    "age.sq",
    "C(sex)[T.Male]",
    "C(sex)[T.Male]:age",
    "edu[Some-college, no degree]",
    "hours per week",
    "x",
    "x[T.1]",
)


def weights(**by_position):
    row = np.zeros(len(NAMES))
    for key, value in by_position.items():
        row[int(key[1:])] = value
    return row


@pytest.mark.parametrize(
    ("text", "row", "value"),
    [
        ("age = 0", weights(_1=1), 0),
        ("age", weights(_1=1), 0),
        ("age=-3.5e-2", weights(_1=1), -0.035),
        ("0 = age", weights(_1=-1), 0),
        ("age.sq = 1", weights(_2=1), 1),
        ("C(sex)[T.Male] = 1", weights(_3=1), 1),
        ("C(sex)[T.Male]:age=.5", weights(_4=1), 0.5),
        ("edu[Some-college, no degree] - age = 2", weights(_5=1, _1=-1), 2),
        ("hours per week = 40", weights(_6=1), 40),
        ("`hours per week` = 40", weights(_6=1), 40),
        ("x[T.1] = x", weights(_8=1, _7=-1), 0),
        ("2*age + age/4 - 3 x = 1 + 1", weights(_1=2.25, _7=-3), 2),
        ("age*2*3 = x + 5 - age", weights(_1=7, _7=-1), 5),
        ("-age - -x = 0", weights(_1=-1, _7=1), 0),
        ("2 * -age = 0", weights(_1=-2), 0),
    ],
)
def test_single_hypotheses(text, row, value):
    R, r = parse_constraints(text, NAMES)
    np.testing.assert_allclose(R, [row])
    np.testing.assert_allclose(r, [value])
    assert not np.any(np.signbit(r) & (r == 0))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("`my x`:z", "my x:z"),
        ("`my x`:`z`", "my x:z"),
        ("`my x:z`", "my x:z"),
        ("my x:z", "my x:z"),
        ("`my x`", "my x"),
        ("`my g`[T.b]", "my g[T.b]"),
        ("`my g`[T.b]:`my x`", "my g[T.b]:my x"),
        ("`my g[T.b]`:my x", "my g[T.b]:my x"),
        ("`a:b`", "a:b"),
        ("`a:b`:z", "a:b:z"),
        ("class: `my x`", "class: my x"),
        ("I(`my x` > 1):z", "I(`my x` > 1):z"),
    ],
)
def test_factors_may_be_quoted_as_in_a_formula(text, name):
    names = (
        "my x",
        "z",
        "my x:z",
        "my g[T.b]",
        "my g[T.b]:my x",
        "a:b",
        "a:b:z",
        "class: my x",
        "I(`my x` > 1):z",
    )
    expected = [float(one == name) for one in names]
    for written in (f"{text} = 2", f"2 = {text}", f"{text}*1=2", f" {text}  - 2"):
        R, r = parse_constraints(written, names)
        np.testing.assert_array_equal(np.abs(R), [expected])
        assert abs(r[0]) == 2
    assert is_spelled(name, text)
    assert not any(is_spelled(one, text) for one in names if one != name)


@pytest.mark.parametrize("text", ["`my x:`z", "my `x`:z", "`my x`:q", "`my x:z", "``my x``", "`my` x"])
def test_other_quotes_spell_no_name(text):
    with pytest.raises(InvalidArgument, match="R "):
        parse_constraints(text, ("my x", "z", "my x:z"))


IN_OTHER_WORDS = (
    "I(a ** 2)",
    "C(g, Treatment('y'))[T.x]",
    """C(g, Treatment("it's"))[T.y]""",
    "C(h)[T.a (b)]",
    "a:b",
    "C(k)[T.u]:I(a > 1):`my x`",
    "np.maximum(a - 1, 0)",
    "my x:z",
    "u: a:c",
    "I(x == 'b')",
    "I(x == ' b')",
    "a:C(h)[T.(it's)]",
)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("I(a**2)", "I(a ** 2)"),
        ("I( a  **2 )", "I(a ** 2)"),
        ('C(g, Treatment("y"))[T.x]', "C(g, Treatment('y'))[T.x]"),
        ("C(g,Treatment('y'))[T.x]", "C(g, Treatment('y'))[T.x]"),
        (r"C(g, Treatment('it\'s'))[T.y]", """C(g, Treatment("it's"))[T.y]"""),
        ("b:a", "a:b"),
        ("a : b", "a:b"),
        ("`b`: a", "a:b"),
        ("I(a>1):C(k)[T.u]:`my x`", "C(k)[T.u]:I(a > 1):`my x`"),
        ("z:`my x`", "my x:z"),
        ("np.maximum(a-1,0)", "np.maximum(a - 1, 0)"),
        ("u: c:a", "u: a:c"),
        ('I(x=="b")', "I(x == 'b')"),
        ("I(x==' b')", "I(x == ' b')"),
        ("C(h)[T.(it's)]:a", "a:C(h)[T.(it's)]"),
    ],
)
def test_names_may_be_spelled_as_in_the_formula_that_was_fitted(text, name):
    expected = [float(one == name) for one in IN_OTHER_WORDS]
    for written in (f"{text} = 2", f"2={text}", f"3 *{text} - 2*{text} = 2"):
        R, r = parse_constraints(written, IN_OTHER_WORDS)
        np.testing.assert_array_equal(np.abs(R), [expected])
        assert abs(r[0]) == 2
    assert [one for one in IN_OTHER_WORDS if is_in_other_words(one, text)] == [name]


@pytest.mark.parametrize(
    "text", ["I(a**3)", "I(x=='  b')", "a:b:a", "b", "C(g, Treatment(y))[T.x]", "I(a* *2)", "myx:z", "u:a:c:"]
)
def test_other_words_spell_no_name(text):
    with pytest.raises(InvalidArgument, match="R "):
        parse_constraints(text, IN_OTHER_WORDS)
    assert not any(is_in_other_words(one, text) for one in IN_OTHER_WORDS)


def test_what_may_be_two_names_is_none_unless_it_is_spelled_as_one():
    """A column that is called so comes before an interaction of two."""
    names = ("b:a", "a:b", "C(g)[T.a (b)]", "C(g)[T.a ( b)]")
    assert parse_constraints("a:b = 0", names)[0].tolist() == [[0, 1, 0, 0]]
    with pytest.raises(InvalidArgument, match="no coefficient"):
        parse_constraints("a : b = 0", names)
    assert parse_constraints("C(g)[T.a (b)] = 0", names)[0].tolist() == [[0, 0, 1, 0]]
    with pytest.raises(InvalidArgument, match="no coefficient"):
        parse_constraints("C(g)[T.a (b )] = 0", names)


def test_many_spaces_take_no_time():
    spaces = " " * 50_000
    assert parse_constraints(f"I(a{spaces}**{spaces[:40_000]}2)", ("I(a ** 2)", "b:a"))[0].tolist() == [
        [1, 0]
    ]


def test_several_hypotheses():
    R, r = parse_constraints("age = 0, edu[Some-college, no degree] = 2,x=40", NAMES)
    np.testing.assert_array_equal(R, [weights(_1=1), weights(_5=1), weights(_7=1)])
    np.testing.assert_array_equal(r, [0, 2, 40])


@pytest.mark.parametrize("kind", [list, tuple])
def test_a_list_of_texts_is_all_of_them(kind):
    texts = kind(["age = 0, edu[Some-college, no degree] = 2", "x=40"])
    for found, joined in zip(
        hypotheses(texts, None, NAMES), parse_constraints(", ".join(texts), NAMES), strict=True
    ):
        np.testing.assert_array_equal(found, joined)


@pytest.mark.parametrize(
    ("given", "r", "message"),
    [
        (["age", 1.0], None, "nothing but texts"),
        (["age", ["x"]], None, "nothing but texts"),
        (["age", "nobody"], None, "'nobody'"),
        (["age", "x"], [0.0, 1.0], "r must be None"),
        (["age", ""], None, "^R "),
        ([], None, "^R "),
    ],
)
def test_a_list_that_is_no_list_of_texts_is_refused(given, r, message):
    with pytest.raises(InvalidArgument, match=message):
        hypotheses(given, r, NAMES)


def test_a_name_that_reads_like_a_number():
    assert parse_constraints("`1` = 1", ("0", "1"))[0].tolist() == [[0, 1]]
    with pytest.raises(InvalidArgument, match="without any coefficient"):
        parse_constraints("1 = 1", ("0", "1"))


@pytest.mark.parametrize(
    "text",
    [
        "",
        ",",
        "age = 0,",
        "age = ",
        "= 0",
        "age = 0 = 0",
        "1 = 1",
        "age - age = 0",
        "height = 0",
        "ages = 0",
        "age*x = 0",
        "1/age = 0",
        "age x = 0",
        "age/0 = 0",
        "age * = 0",
        "* age = 0",
        "age + = 0",
        "age ** 2 = 0",
        "(age) = 0",
        "age = 1e999",
        "`age = 0",
        "__import__('os') = 0",
        "age = 0" + " " * 200_000,
    ],
)
def test_malformed_text_is_refused(text):
    with pytest.raises(InvalidArgument, match=r"^R "):
        parse_constraints(text, NAMES)


@pytest.mark.parametrize(
    ("text", "word", "near"),
    [
        ("agee = 0", "agee", "age"),
        ("age = 0, 2*ages - x = 1", "ages", "age"),
        ("`agee` = 0", "agee", "age"),
        ("C(sexx)[T.Male] - age", "C(sexx)[T.Male]", "C(sex)[T.Male]"),
        ("C(sex)[T.Male]:agee = 0", "C(sex)[T.Male]:agee", "C(sex)[T.Male]:age"),
        ("edu[Some-colege, no degree] = 0, age", "edu[Some-colege, no degree]", NAMES[5]),
        ("hours per weak=40", "hours per weak", "hours per week"),
    ],
)
def test_an_unknown_name_is_named_with_one_that_is_near(text, word, near):
    with pytest.raises(InvalidArgument) as caught:
        parse_constraints(text, NAMES)
    assert str(caught.value) == f"R names {word!r}, which is no coefficient; did you mean {near!r}?"


def test_an_unknown_name_that_is_near_none_gets_the_known_ones_in_one_short_line():
    with pytest.raises(InvalidArgument) as caught:
        parse_constraints("q\n" * 5000 + "= 0", NAMES)
    message = str(caught.value)
    assert "; known are 'Intercept', 'age', 'age.sq', " in message
    assert "\n" not in message
    assert len(message) < 300


@given(st.text(alphabet="age x1.5e+-*/=,`[T]()", max_size=40))
def test_any_text_is_read_or_refused(text):
    try:
        R, r = parse_constraints(text, NAMES)
    except InvalidArgument:
        return
    assert R.shape == (len(r), len(NAMES))
    assert np.all(np.isfinite(R))
    assert np.all(np.any(R != 0, axis=1))


small = st.integers(-20, 20).map(lambda i: i / 4)


@given(
    st.lists(st.tuples(st.lists(small, min_size=9, max_size=9).filter(any), small), min_size=1, max_size=3)
)
def test_description_reads_back(hypotheses):
    R = np.array([row for row, _ in hypotheses])
    r = np.array([value for _, value in hypotheses])
    R_back, r_back = parse_constraints(describe_constraints(R, r, NAMES), NAMES)
    np.testing.assert_array_equal(R_back, R)
    np.testing.assert_array_equal(r_back, r)
