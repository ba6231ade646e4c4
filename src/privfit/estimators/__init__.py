"""scikit-learn estimators."""

from privfit.estimators.classifiers import LogisticRegression
from privfit.estimators.regressors import HuberRegressor, LinearRegression

__all__ = ["HuberRegressor", "LinearRegression", "LogisticRegression"]
