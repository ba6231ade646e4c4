"""Renderings. Set PRIVFIT_UPDATE_SNAPSHOTS=1 to rewrite the stored ones after a wanted change."""

import json
import os
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from privfit.results.numbers import display_width, significant
from privfit.results.printer import latex_escape

SNAPSHOTS = Path(__file__).parent / "snapshots"
MARK = "NOT PRIVATE (seeded noise) — do not release"
RENDERINGS = {"txt": "as_text", "html": "as_html", "tex": "as_latex"}


@pytest.mark.parametrize("suffix", RENDERINGS)
@pytest.mark.parametrize("kind", ["result", "seeded", "estimate_only"])
def test_snapshot(kind, suffix, request):
    summary = request.getfixturevalue(kind).summary()
    rendered = getattr(summary, RENDERINGS[suffix])() + "\n"
    path = SNAPSHOTS / f"{kind}.{suffix}"
    if os.environ.get("PRIVFIT_UPDATE_SNAPSHOTS"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(rendered, encoding="utf-8")
    assert rendered == path.read_text(encoding="utf-8")


def visible(html):
    return re.sub(r"<style>.*?</style>|<[^>]*>", "", html, flags=re.DOTALL).strip()


@pytest.mark.parametrize("render", RENDERINGS.values())
def test_a_seeded_result_is_marked_first_and_last(seeded, render):
    text = getattr(seeded.summary(), render)()
    assert text.count(MARK) == 2
    lines = visible(text).splitlines()
    assert MARK in (lines[1] if render == "as_latex" else lines[0])
    assert MARK in lines[-1]


def test_a_seeded_result_is_marked_elsewhere(seeded, noiseless):
    assert not seeded.private
    assert MARK in repr(seeded)
    assert seeded._repr_html_().count(MARK) == 2
    assert str(seeded.wald_test("age = 0")).startswith(MARK)
    assert f'"warning": "{MARK}"' in seeded.to_json()
    assert "NOT PRIVATE (no noise) — do not release" in repr(noiseless)
    for text in (str(seeded.summary()), str(noiseless.summary())):
        assert "changes the probability" not in text
        assert "nothing is promised" in text


def test_a_seeded_result_without_inference_is_marked(seeded):
    result = replace(seeded, cov_sampling=None, cov_noise=None, dof=None)
    assert str(result.summary()).count(MARK) == 2


def test_a_private_result_is_not_marked(result):
    for render in RENDERINGS.values():
        assert "NOT PRIVATE" not in getattr(result.summary(), render)()
    assert "(ε = 1, δ = 1e-06)-DP, replace one row; μ = 0.2367" in repr(result)


def test_summary_is_data(result):
    summary = result.summary(level=0.9)
    assert [name for name, _ in summary.rows] == list(result.names)
    assert [column.label for column in summary.columns][4:6] == ["[0.05", "0.95]"]
    values = np.array([values for _, values in summary.rows])
    np.testing.assert_array_equal(values[:, 0], result.estimate)
    np.testing.assert_array_equal(values[:, 1], result.bse)
    np.testing.assert_array_equal(values[:, 4:6], result.conf_int(0.9))
    np.testing.assert_array_equal(values[:, 6], result.noise_share)


def test_text_is_narrow_and_aligned_for_hard_cases(result):
    names = tuple(
        f"C(education_of_the_respondent_年齢)[T.Some-college-{i}-no degree at all]" for i in range(5)
    )
    hard = replace(
        result,
        names=names,
        target="t" * 150,
        model="m" * 150,
        estimate=np.array([1e-300, -1.2345e300, 9999999.4, -0.00012345, np.inf]),
        cov_sampling=np.diag([1e-300, 1e250, np.nan, -1.0, 1.0]),
        plan=replace(result.plan, solver="NoisyNewton(" + "option=1, " * 20 + ")", n_rows=10**40),
        scale=1e-200,
    )
    lines = str(hard.summary()).splitlines()
    assert max(display_width(line) for line in lines) <= 100
    start = next(i for i, line in enumerate(lines) if line.startswith("---")) + 1
    rows = lines[start : start + 5]
    assert len({display_width(row) for row in rows}) == 1
    assert len({row.split("  ")[0] for row in rows}) == 5


def test_decimal_points_are_below_each_other(estimate_only):
    lines = str(estimate_only.summary()).splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("---")) + 1
    assert len({line.rindex(".") for line in lines[start : start + 5]}) == 1


def test_add_remove_hides_no_count(result):
    changed = replace(
        result,
        plan=replace(result.plan, relation="add_remove"),
        statement=replace(result.statement, relation="add_remove", unit="patient"),
    )
    text = " ".join(str(changed.summary()).split())
    assert "48842 (public scale)" in text
    assert "Adding or removing all rows of any one patient of the table" in text


CAUTION = "is 1/n or larger"


@pytest.mark.parametrize("n_rows", [100, 101, 10**6])
def test_a_delta_of_one_over_the_rows_is_said_to_be_large(result, n_rows):
    large = replace(
        result, plan=replace(result.plan, n_rows=n_rows), statement=replace(result.statement, delta=0.01)
    )
    text = " ".join(str(large.summary()).split())
    said = f"δ = 0.01 is 1/n or larger: with n = {n_rows} rows, a guarantee with such a δ allows publishing"
    assert said in text
    assert said in json.loads(large.to_json())["guarantee"]
    assert f"n^-1.1 = {significant(n_rows**-1.1, 2)}" in text
    people = replace(large, statement=replace(large.statement, unit="value of patient"))
    assert f"n = {n_rows} privacy units, a guarantee" in " ".join(str(people.summary()).split())


def test_no_delta_is_called_large_where_none_is_declared_or_it_is_below(result):
    below = replace(result.statement, delta=0.0099)
    assert below.caution(101) is None
    assert CAUTION in below.caution(102)
    assert replace(below, notion="gdp").caution(102) is None
    assert replace(below, notion="pure", delta=0.0).caution(102) is None
    assert replace(below, epsilon=np.inf, private=False).caution(102) is None
    assert CAUTION not in str(result.summary()) + result.to_json()


def test_pure_budget_mentions_no_failure_probability(result):
    sentence = replace(result.statement, delta=0.0).sentence
    assert "except" not in sentence
    assert "e^ε ≈ 2.718." in sentence


def test_huge_epsilon(result):
    """No computer's number holds e^ε: a power of ten above it does, and what it is worth is said."""
    pure = replace(result.statement, delta=0.0)
    for epsilon, told in (
        (699.0, "e^ε ≈ 3.731e+303. This"),
        (1000.0, "e^ε < 10^435, which is as good as no limit. This"),
        (5000.0, "e^ε < 10^2172, which is as good as no limit. This"),
        (1e300, "e^ε, which is no limit. This"),
        (np.inf, "e^ε, which is no limit. This"),
    ):
        assert told in replace(pure, epsilon=epsilon).sentence
    assert (
        "10^435, which is as good as no limit, except with"
        in replace(result.statement, epsilon=1000.0).sentence
    )
    assert "inf" not in str(replace(result, statement=replace(pure, epsilon=1000.0)).summary().footers[0])


def test_dof_footer(result):
    assert "Student's t with 31.5 to 120 degrees" in " ".join(str(result.summary()).split())
    assert "Student" not in str(replace(result, dof=np.full(5, np.inf)).summary())
    assert "Student's t with 12.0 degrees" in str(replace(result, dof=np.full(5, 12.0)).summary())


class Tags(HTMLParser):
    void = frozenset({"br"})

    def __init__(self):
        super().__init__()
        self.open, self.seen, self.data = [], [], []

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.data.append(data)


def test_html_escapes_everything_and_is_self_contained(result):
    evil = '<script>alert("1")</script>&{{ 7*7 }}'
    hostile = replace(
        result,
        model=evil,
        target=evil,
        names=tuple(evil + str(i) for i in range(5)),
        plan=replace(result.plan, solver=evil),
        statement=replace(result.statement, noise=evil, unit=evil),
    )
    html = hostile.summary().as_html()
    tags = Tags()
    tags.feed(html)
    assert tags.open == []
    assert not {"script", "link", "img", "iframe"} & {tag for tag, _ in tags.seen}
    assert not any("href" in attrs or "src" in attrs for _, attrs in tags.seen)
    assert "".join(tags.data).count(evil) == 12
    assert ("th", {"scope": "row"}) in tags.seen
    assert "url(" not in html


def test_control_characters_cannot_reach_the_terminal(result):
    hostile = replace(result, target="a\x1b[31mb\nc\u202ed", names=("a\r", "b\t", "c\x00", "d\x9b", "e\n"))
    for render in RENDERINGS.values():
        text = getattr(hostile.summary(), render)()
        assert all(char == "\n" or char.isprintable() for char in text)


def test_latex_escapes():
    assert latex_escape(r"a_b & 5% \x {y} $ # ~ ^ <|>") == (
        r"a\_b \& 5\% \textbackslash{}x \{y\} \$ \# \textasciitilde{} \textasciicircum{} "
        r"\textless{}\textbar{}\textgreater{}"
    )
    assert latex_escape("[T.a]*e^ε") == r"{[}T.a{]}{*}$e^{\varepsilon}$"


def test_latex_rows_have_the_same_number_of_cells(result):
    hostile = replace(result, names=("[a] & b", "*c", "d\\\\", "e_f", "100%"))
    table = hostile.summary().as_latex().split(r"\begin{tabular}{lrrrrrrr}")[1].split(r"\end{tabular}")[0]
    rows = [line for line in table.splitlines() if line.endswith(r"\\")]
    assert [len(re.findall(r"(?<!\\)&", row)) for row in rows] == [7] * 6


def test_a_pure_budget_is_a_second_reason_for_students_t(result):
    reason = "heavier tails"
    assert reason not in " ".join(str(result.summary()).split())
    pure = replace(result, statement=replace(result.statement, notion="pure"))
    assert reason in " ".join(str(pure.summary()).split())
