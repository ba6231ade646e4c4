"""The regression models: a title, a response, and how the loss follows from public facts."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from privfit._checks import in_range, one_of, positive, sized
from privfit.data.design import Design
from privfit.data.response import TargetKind
from privfit.errors import Incompatible, InvalidArgument
from privfit.inference.effects import Link
from privfit.losses import (
    AbstractLoss,
    ConcomitantHuber,
    Huber,
    Logistic,
    Multinomial,
    Poisson,
    Quantile,
    Schweppe,
    SmoothedHinge,
    SmoothedQuantile,
    Squared,
)
from privfit.losses.huber import GAUSSIAN_95
from privfit.losses.poisson import LARGEST_PREDICTOR, predictor_up_to
from privfit.losses.typical import USUAL_RESIDUAL, USUAL_WIDTH
from privfit.results.form import Held
from privfit.results.numbers import significant
from privfit.solvers.residual_bounds import WHOLE

UNIT_SCALE_RESIDUAL = 3.0
"""Residual bound of least squares for a response on a unit scale without declared bounds."""

_LEAST_WIDTH = 2.0**-10
"""How much smaller than the usual one the default methods may choose the width of smoothing."""


@dataclass(frozen=True, slots=True)
class Model:
    """A regression model.

    Parameters
    ----------
    title : str
        For summaries.
    target_kind : {"numeric", "binary", "count", "class"}
        Which response it takes.
    loss : callable
        Makes the loss from the public design, because thresholds are stated in units of the response and
        losses work on the encoded one.
    title_of_classes : str or None
        Title where the response has more than two classes.
    link : {"identity", "log", "logit", "none"}
        How the mean, or the quantile, follows from the linear predictor.
    fitted : callable, optional
        Makes the title of a fit from the loss that it ended with, where releases may change that.
    held : callable, optional
        Tells from that loss what residuals or counts are held to.
    quantile : float or None
        Which quantile it is of; None for models of a mean, or of none.
    """

    title: str
    target_kind: TargetKind
    loss: Callable[[Design], AbstractLoss]
    title_of_classes: str | None = None
    link: Link = "identity"
    fitted: Callable[[AbstractLoss, Design], str] | None = None
    held: Callable[[AbstractLoss, Design], Held | None] = lambda _, __: None
    quantile: float | None = None

    def title_for(self, design: Design) -> str:
        """Return the title for a response as it was declared."""
        many = design.target.kind == "class" and self.title_of_classes is not None
        return str(self.title_of_classes) if many else self.title

    def fitted_title(self, loss: AbstractLoss | None, design: Design) -> str:
        """Return the title of a fit that ended with this loss, or whose releases used none."""
        return self.title_for(design) if self.fitted is None or loss is None else self.fitted(loss, design)

    def held_to(self, loss: AbstractLoss | None, design: Design) -> Held | None:
        """Return what such a fit held residuals or counts to."""
        return None if loss is None else self.held(loss, design)


def logistic_regression() -> Model:
    """Return the logistic model of a response with two classes, and the multinomial one with more."""

    def loss(design: Design) -> AbstractLoss:
        labels = design.target.labels
        if design.target.kind == "class" and labels is not None:
            return Multinomial(len(labels))
        return Logistic()

    return Model("Logistic regression", "class", loss, "Multinomial logistic regression", link="logit")


def linear_regression(residual_bound: float | None = None) -> Model:
    """Return least squares with a bounded residual.

    Parameters
    ----------
    residual_bound : float, optional
        In units of the response. Default: half the declared range, in place of which the default method with
        inference takes what released residuals ask for; 3 without declared bounds.
    """

    def loss(design: Design) -> AbstractLoss:
        if residual_bound is not None:
            return Squared(sized(residual_bound=residual_bound / design.target.half_width))
        return Squared(1.0, adapts=True) if design.target.bounded else Squared(UNIT_SCALE_RESIDUAL)

    title = "Linear regression (least squares{})"

    def held(loss: AbstractLoss, design: Design) -> Held | None:
        assert isinstance(loss, Squared)  # noqa: S101 -- made above
        half, most = design.target.half_width, WHOLE if design.target.bounded else math.inf
        cut = residual_bound is None and loss.bound < most
        return Held("residuals", loss.bound * half, most * half) if cut else None

    def fitted(loss: AbstractLoss, design: Design) -> str:
        cut = held(loss, design)
        return title.format("" if cut is None else f", residuals up to ±{significant(cut.at, 2)}")

    return Model(title.format(""), "numeric", loss, fitted=fitted, held=held)


def huber_regression(threshold: float = GAUSSIAN_95, scale: float | None = None) -> Model:
    """Return Huber's robust linear model.

    Parameters
    ----------
    threshold : float
        In units of the residual scale.
    scale : float, optional
        Public residual scale in units of the response. By default it is estimated along.
    """

    def loss(design: Design) -> AbstractLoss:
        if scale is None:
            return ConcomitantHuber(threshold)
        return Huber(threshold * scale / design.target.half_width)

    return Model("Robust linear regression (Huber)", "numeric", loss)


def support_vector_machine(loss: AbstractLoss) -> Model:
    """Return the linear support vector machine with a hinge loss, smoothed or not."""
    return Model("Linear support vector machine", "binary", lambda _: loss, link="none")


def quantile_regression(quantile: float = 0.5, smoothing_width: float | None = None) -> Model:
    """Return smoothed quantile regression.

    Parameters
    ----------
    quantile : float
        In (0, 1).
    smoothing_width : float, optional
        Half-width of the smoothing, in units of the response. Default: what the default methods find from
        released residuals, but at most, and with other methods, 5 % of the declared range, which is 0.4
        residual scales if that scale is an eighth of the range; 0.4 without declared bounds.
    """

    def loss(design: Design) -> AbstractLoss:
        if smoothing_width is not None:
            return SmoothedQuantile(quantile, smoothing_width / design.target.half_width)
        widest = USUAL_WIDTH * (USUAL_RESIDUAL if design.target.bounded else 1.0)
        return SmoothedQuantile(quantile, widest, least=widest * _LEAST_WIDTH)

    def fitted(loss: AbstractLoss, design: Design) -> str:
        assert isinstance(loss, SmoothedQuantile)  # noqa: S101 -- made above
        used = significant(loss.width * design.target.half_width, 2)
        return f"Quantile regression (quantile {quantile:g}, smoothed by ±{used})"

    title = f"Quantile regression (quantile {quantile:g})"
    return Model(title, "numeric", loss, fitted=fitted, quantile=quantile)


def poisson_regression(predictor_bound: float | None = None) -> Model:
    """Return Poisson regression of a count with a log link.

    Parameters
    ----------
    predictor_bound : float, optional
        Largest log mean that is taken as it is. Default: `predictor_up_to` the count's bound.
    """

    def loss(design: Design) -> AbstractLoss:
        count_bound = design.target.count_bound
        if count_bound is None:
            raise Incompatible("schema: a count needs a public upper bound; declare it, or give count_bound")
        bound = predictor_up_to(count_bound) if predictor_bound is None else predictor_bound
        return Poisson(bound, count_bound)

    title = "Poisson regression"

    def held(loss: AbstractLoss, design: Design) -> Held | None:
        assert isinstance(loss, Poisson)  # noqa: S101 -- made above
        declared = design.target.count_bound
        if declared is None or loss.count_bound >= declared:
            return None
        return Held("counts", loss.count_bound, declared)

    def fitted(loss: AbstractLoss, design: Design) -> str:
        cut = held(loss, design)
        return title if cut is None else f"{title} (counts up to {significant(cut.at, 2)})"

    return Model(title, "count", loss, link="log", fitted=fitted, held=held)


def m_estimation(loss: AbstractLoss) -> Model:
    """Return the M-estimator of any loss, whose constants are in units of the encoded response."""
    if loss.target_kind == "class":
        raise Incompatible(f"loss: {loss.name} is what LogisticRegression(classes=[...]) fits; use that")
    link: Link = "identity" if loss.target_kind == "numeric" else "none"
    if isinstance(loss, Logistic | Poisson):
        link = "logit" if isinstance(loss, Logistic) else "log"
    of_row = loss.loss if isinstance(loss, Schweppe) else loss
    quantile = of_row.tau if isinstance(of_row, Quantile | SmoothedQuantile) else None
    return Model(f"M-estimation: {loss.name}", loss.target_kind, lambda _: loss, link=link, quantile=quantile)


def _smoothed_machine(smoothing_width: float = 1.0) -> Model:
    return support_vector_machine(SmoothedHinge(smoothing_width))


BY_NAME: dict[str, Callable[..., Model]] = {
    "logit": logistic_regression,
    "ols": linear_regression,
    "huber": huber_regression,
    "svm": _smoothed_machine,
    "quantile": quantile_regression,
    "poisson": poisson_regression,
}
"""The models that planner and command line know by name."""

CONSTANTS: dict[str, tuple[str, ...]] = {
    "ols": ("residual_bound",),
    "huber": ("threshold", "scale"),
    "svm": ("smoothing_width",),
    "quantile": ("quantile", "smoothing_width"),
    "poisson": ("predictor_bound",),
}
"""Names of the constants that models take."""


def model_named(name: str, **constants: float | None) -> Model:
    """Return the model of this name.

    Parameters
    ----------
    name : {"logit", "ols", "huber", "svm", "quantile", "poisson"}
    **constants : float or None
        Of `CONSTANTS`; None for the usual one.

    Raises
    ------
    InvalidArgument
        If there is no such model, it does not take a constant, or the constant is not allowed.
    """
    make = BY_NAME[one_of(tuple(BY_NAME), model=name)]
    given = {constant: value for constant, value in constants.items() if value is not None}
    for constant, value in given.items():
        if constant not in CONSTANTS.get(name, ()):
            raise InvalidArgument(f"{constant} goes with {_takers(constant)}; leave it out")
        _check_constant(constant, value)
    return make(**given)


def model_of(model: str | AbstractLoss, **constants: float | None) -> Model:
    """Return the model of a name, or the M-estimator of a loss, which takes no constants."""
    if not isinstance(model, AbstractLoss):
        return model_named(model, **constants)
    for constant, value in constants.items():
        if value is not None:
            raise InvalidArgument(f"{constant} goes with {_takers(constant)}; a loss has its own")
    return m_estimation(model)


def _takers(constant: str) -> str:
    takers = (repr(model) for model, taken in CONSTANTS.items() if constant in taken)
    return f"model={' or '.join(takers)}"


def _check_constant(name: str, value: float) -> None:
    match name:
        case "quantile":
            in_range(0.0, 1.0, closed="neither", quantile=value)
        case "predictor_bound":
            in_range(0.0, LARGEST_PREDICTOR, closed="right", predictor_bound=value)
        case _:
            positive(**{name: value})
