"""Fits of statsmodels with the small-sample factor that it has for least squares alone."""


def hc1(fit, n=None):
    """Return the fit with a covariance ``n / (n - k)`` times as large, for k columns.

    ``n`` is the number of rows unless clusters are counted. ``cov_type="HC1"`` is the same for least squares,
    and silently HC0 for the other models.
    """
    n = len(fit.model.endog) if n is None else n
    covariance = fit.cov_params_default
    covariance *= n / (n - fit.model.exog.shape[1])
    return fit
