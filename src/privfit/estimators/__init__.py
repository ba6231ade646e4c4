"""scikit-learn estimators."""

from privfit.estimators.classifiers import LinearSVC, LogisticRegression
from privfit.estimators.counts import PoissonRegressor
from privfit.estimators.m_estimator import MEstimator
from privfit.estimators.quantile import QuantileRegressor
from privfit.estimators.regressors import HuberRegressor, LinearRegression

__all__ = [
    "HuberRegressor",
    "LinearRegression",
    "LinearSVC",
    "LogisticRegression",
    "MEstimator",
    "PoissonRegressor",
    "QuantileRegressor",
]
