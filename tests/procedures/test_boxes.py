"""Boxes and draws from tangents, without chance: volumes, masses and quantiles by hand."""

import numpy as np
import pytest

from privfit.privacy.mechanisms import make_source
from privfit.procedures.tangent_boxes import (
    Frame,
    _Boxes,
    _shells,
    _split,
    draw_exponential,
    draw_from_ball,
    fine_uniform,
    log_exponential,
    pick,
)

FRAME = Frame(np.array([0.25, -0.5]), np.array([[0.6, -0.4], [0.3, 0.8]]), 1.0)


class Told:
    """A source of numbers that are given."""

    def __init__(self, uniform=(), integers=()):
        self.numbers, self.whole = list(uniform), list(integers)

    def uniform(self, size):
        taken, self.numbers = self.numbers[:size], self.numbers[size:]
        assert len(taken) == size
        return np.array(taken)

    def integers(self, high, size):
        assert high == 2
        taken, self.whole = self.whole[:size], self.whole[size:]
        assert len(taken) == size
        return np.array(taken)


def bowl(x):
    return 3.0 * (x * x).sum(axis=1) + x[:, 0], 6.0 * x + np.array([1.0, 0.0])


def test_coordinates_are_along_the_axes_of_the_frame():
    theta = np.array([[0.25, -0.5], [0.85, -0.2], [-0.15, 0.3]])
    np.testing.assert_allclose(FRAME.coordinates(theta), [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]], atol=1e-15)
    np.testing.assert_allclose(FRAME.points(np.array([[1.0, -2.0]])), [[1.65, -1.8]])


def test_points_beyond_the_ball_are_moved_into_it_and_others_stay():
    frame = Frame(np.zeros(2), np.eye(2), 5.0)
    points = np.array([[3.0, 4.0], [6.0, 8.0], [0.0, 0.0], [1.0, -1.0], [3.0, 4.0 + 1e-12]])
    np.testing.assert_array_equal(frame.holds(points), [True, False, True, True, False])
    moved = frame.towards(points)
    assert frame.holds(moved).all()
    np.testing.assert_allclose(
        moved, [[3.0, 4.0], [3.0, 4.0], [0.0, 0.0], [1.0, -1.0], [3.0, 4.0]], rtol=1e-11
    )
    np.testing.assert_array_equal(moved[2:4], points[2:4])
    far = 100.0 * np.random.default_rng(1).normal(size=(500, 2))
    assert frame.holds(frame.towards(far)).all()  # rounding leaves some of them outside of a ball as large


def test_the_smallest_box_around_the_ball_is_no_larger_than_it_has_to_be():
    low, high = FRAME.extent()
    length = np.array([0.6**2 + 0.3**2, 0.4**2 + 0.8**2])
    middle = -np.array([0.6 * 0.25 - 0.3 * 0.5, -0.4 * 0.25 - 0.8 * 0.5]) / length
    np.testing.assert_allclose(low, middle - 1.0 / np.sqrt(length), rtol=1e-11)
    np.testing.assert_allclose(high, middle + 1.0 / np.sqrt(length), rtol=1e-11)
    np.testing.assert_array_less(low, middle - 1.0 / np.sqrt(length))
    np.testing.assert_array_less(middle + 1.0 / np.sqrt(length), high)


@pytest.mark.parametrize("radius", [1.0, 4.0])
def test_a_box_meets_the_ball_where_its_nearest_point_is_in_it(radius):
    frame = Frame(np.zeros(2), np.eye(2), radius)
    low = np.array([[1.0, -1.0], [1.0 + 1e-11, -1.0], [0.6, 0.8 + 1e-11], [-3.0, -3.0], [-3.0, 0.5]])
    high = np.array([[2.0, 1.0], [2.0, 1.0], [2.0, 2.0], [3.0, 3.0], [-1.1, 2.0]])
    np.testing.assert_array_equal(frame.meets(radius * low, radius * high), [True, False, False, True, False])
    angle = np.linspace(0.0, 0.5 * np.pi, 500)
    corner = radius * np.column_stack([np.cos(angle), np.sin(angle)])  # some are beyond it by rounding
    assert frame.meets(corner, corner + 1.0).all()


@pytest.mark.parametrize("reach", [([-9.0, -1.0], [3.0, 70.0]), ([-0.5, 2.5], [0.5, 2.75]), ([3.0], [50.0])])
def test_shells_fill_the_box_once(reach):
    low, high = _shells(*map(np.array, reach))
    assert (low <= high).all()
    np.testing.assert_array_equal((low.min(axis=0), high.max(axis=0)), reach)
    volume = np.prod(high - low, axis=1)
    np.testing.assert_allclose(volume.sum(), np.prod(np.subtract(*reach[::-1])), rtol=1e-14)
    shared = np.minimum(high[:, None], high) - np.maximum(low[:, None], low)
    assert np.count_nonzero((shared > 0.0).all(axis=2)) == np.count_nonzero(volume)  # each box with itself


def test_cuts_are_at_powers_of_two():
    low, high = _shells(np.array([-9.0]), np.array([3.0]))
    cells = sorted(zip(low[:, 0], high[:, 0], strict=True))
    assert cells == [(-9.0, -8.0), (-8.0, -4.0), (-4.0, -2.0), (-2.0, 2.0), (2.0, 3.0)]


def test_tangents_touch_the_exponent_and_masses_are_their_integrals():
    low, high = (
        np.array([[-0.5, -0.25], [0.0, 0.5], [40.0, 40.0]]),
        np.array([[0.5, 0.5], [0.75, 1.0], [41.0, 41.0]]),
    )
    boxes = _Boxes.over(low, high, bowl, FRAME)
    assert boxes.count == 2  # the last one misses the ball
    side = (np.arange(100) + 0.5) / 100.0
    for k in range(2):
        theta = FRAME.points(boxes.anchor[k : k + 1])
        np.testing.assert_allclose(theta, FRAME.towards(FRAME.points(0.5 * (low + high)[k : k + 1])))
        value, gradient = bowl(theta)
        box = np.array([k])
        np.testing.assert_allclose(boxes.tangent(box, boxes.anchor[k : k + 1]), value)
        step = np.array([[0.125, -0.25]])
        moved = boxes.tangent(box, boxes.anchor[k : k + 1] + step)
        np.testing.assert_allclose(moved, value + gradient[0] @ (FRAME.turn @ step[0]))
        cells = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2) * (high - low)[k] + low[k]
        heights = boxes.tangent(np.full(len(cells), k), cells)
        mass = np.mean(np.exp(-heights)) * np.prod((high - low)[k])
        assert boxes.log_mass[k] == pytest.approx(np.log(mass), abs=1e-3)
    assert (boxes.slope[:, 0] > 0).any()
    assert (boxes.slope < 0).any()


def test_points_are_drawn_from_the_end_where_the_tangent_is_low():
    """With numbers near 0 a point is next to it: 1e-6 of the mass lies below."""
    boxes = _Boxes.over(np.array([[-0.5, -0.25]]), np.array([[0.5, 0.5]]), bowl, FRAME)
    assert boxes.slope[0, 0] * boxes.slope[0, 1] < 0.0
    box = np.array([0])
    z = boxes.draw(box, Told([2e-6, 2e-6, 0.0, 0.0], [0, 0]))
    ends = np.where(boxes.slope >= 0, boxes.low, boxes.high)
    assert (np.sign(z - ends) == np.sign(boxes.slope)).all()
    np.testing.assert_allclose(z, ends, atol=1e-5)


def test_half_boxes_take_the_place_of_those_that_proposals_came_from():
    low, high = (
        np.array([[0.0, 0.0], [0.0, -0.25], [-0.25, 0.0]]),
        np.array([[0.25, 0.25], [0.25, 0.0], [0.0, 0.25]]),
    )
    boxes = _Boxes.over(low, high, bowl, FRAME)
    bend = np.array([[1.0, 2.0], [5.0, 0.0], [3.0, 1.0]])
    split = _split(boxes, np.array([2, 0, 2]), bend, bowl, FRAME)  # the first proposal of a box counts
    found = sorted((tuple(a), tuple(b)) for a, b in zip(split.low, split.high, strict=True))
    assert found == [
        ((-0.25, 0.0), (0.0, 0.125)),
        ((-0.25, 0.125), (0.0, 0.25)),
        ((0.0, -0.25), (0.25, 0.0)),
        ((0.0, 0.0), (0.125, 0.25)),
        ((0.125, 0.0), (0.25, 0.25)),
    ]
    anew = _Boxes.over(split.low, split.high, bowl, FRAME)
    for name in ("anchor", "value", "slope", "log_mass"):
        np.testing.assert_array_equal(getattr(split, name), getattr(anew, name))


@pytest.mark.parametrize("rate", [0.0, 1e-310, 1e-290, 1e-9, 0.5, 3.0, 40.0, 1e5, 1e280])
@pytest.mark.parametrize("length", [1e-40, 1e-3, 0.1, 1.0, 700.0])
def test_an_exponential_draw_is_its_quantile_from_either_end(rate, length):
    """Half of the number is the mass below the point, or above it."""
    numbers = np.array([1e-20, 1e-12, 0.3, 0.999])
    half, nothing, side = 0.5 * numbers, np.zeros(4), np.ones(4, dtype=int)
    below, above = (
        draw_exponential(np.full(4, rate), np.full(4, length), Told([*numbers, *nothing], end * side))
        for end in (0, 1)
    )
    assert ((below >= 0.0) & (below <= above) & (above <= length)).all()
    if rate * length < 1e-300:
        np.testing.assert_allclose(below, half * length, rtol=1e-15)
        np.testing.assert_allclose(above, (1.0 - half) * length, rtol=1e-15)
        return
    whole = -np.expm1(-rate * length)
    np.testing.assert_allclose(-np.expm1(-rate * below) / whole, half, rtol=1e-9)
    if rate * length < 600.0:
        beyond = np.exp(-rate * length) * np.expm1(rate * (length - above))
    else:
        beyond = np.exp(-rate * above)
    np.testing.assert_allclose(beyond / whole, half, rtol=1e-6, atol=1e-15)


def test_masses_of_exponentials():
    cases = [
        (0.0, 3.0, 3.0),
        (1e-310, 3.0, 3.0),
        (1e-310, 1e-20, 1e-20),
        (1e-290, 1e-40, 1e-40),
        (1e-12, 3.0, 3.0),
        (2.0, 0.5, -np.expm1(-1.0) / 2.0),
        (1e5, 7.0, 1e-5),
    ]
    rate, length, mass = np.array(cases).T
    np.testing.assert_allclose(log_exponential(rate, length), np.log(mass), rtol=1e-11)


def test_the_earliest_arrival_is_picked():
    """Arrivals of rates 1 and 3: at -log(1 - u) over the rate; each pick has numbers of its own."""
    weights = np.log([1.0, 3.0]) - 900.0
    first, second = 1.0 - np.exp(-0.1), 1.0 - np.exp(-0.29)
    third = 1.0 - np.exp(-0.31)
    told = Told([first, second, first, third, *[0.0] * 4])
    np.testing.assert_array_equal(pick(weights, 2, told), [1, 0])
    assert not told.numbers


def test_no_chance_is_spent_on_what_cannot_be_picked():
    told = Told([0.5, 0.5, 0.0, 0.0])
    np.testing.assert_array_equal(pick(np.array([-101.0, 0.0]), 2, told), [1, 1])
    told = Told([0.5, 0.5, 0.0, 0.0])
    np.testing.assert_array_equal(pick(np.array([-99.0, 0.0]), 1, told), [1])
    assert not told.numbers


def test_uniform_numbers_have_a_second_word_and_neither_end():
    one = 1.0 - 2.0**-53
    found = fine_uniform(4, Told([0.5, 0.0, 0.0, one, 0.5, 0.5, 0.0, one]))
    np.testing.assert_array_equal(found, [0.5 + 2.0**-54, 2.0**-54, 2.0**-107, one])


def test_the_exponent_is_asked_within_the_ball_only():
    asked = []

    def flat(x):
        asked.append(x)
        return np.zeros(len(x)), np.zeros_like(x)

    frame, noise = Frame(np.zeros(2), np.eye(2), 1.0), make_source(1)
    drawn = np.array([draw_from_ball(flat, frame, noise) for _ in range(20)])
    assert frame.holds(np.concatenate(asked)).all()
    assert frame.holds(drawn).all()


def test_where_the_tangent_is_the_exponent_all_but_a_thousandth_are_accepted():
    """Acceptance is lower everywhere by ``exp(-2**-10)``, so that rounding cannot push it above 1."""
    patience, places = 2.0**-10 * np.array([0.999] * 7 + [1.001]), np.linspace(0.1, 0.8, 8)
    nothing, low = np.zeros(8), np.zeros(8, dtype=int)
    told = Told([*nothing, *nothing, *places, *nothing, *np.exp(-patience), *nothing], low)
    frame = Frame(np.zeros(1), np.eye(1), 1.0)
    drawn = draw_from_ball(lambda x: (np.zeros(len(x)), np.zeros_like(x)), frame, told)
    assert drawn[0] == pytest.approx(-1.0 + 2.0 * 0.4)  # half of the last number, from the lower end
    assert not told.numbers
