"""All methods of the benchmark."""

from competitors.base import AbstractMethod
from competitors.descent import TunedGradientDescent, TunedSGD
from competitors.library import DEFAULT, SOLVERS
from competitors.moments import PublishedAdaSSP, TunedStatistics
from competitors.newton import DoubleNoiseNewton
from competitors.other_libraries import DiffPrivLib
from competitors.perturbed import ApproximateMinimaPerturbation, TunedObjectivePerturbation
from competitors.references import Constant, OneShotOracle

__all__ = ["methods"]


def methods(diffprivlib: str | None) -> tuple[AbstractMethod, ...]:
    """Return every method; diffprivlib's only where an interpreter that has it is given."""
    other = () if diffprivlib is None else (DiffPrivLib(diffprivlib),)
    return (
        DEFAULT,
        *SOLVERS,
        TunedObjectivePerturbation(),
        ApproximateMinimaPerturbation("AMP, tuning-free", tuned=False),
        ApproximateMinimaPerturbation("AMP, tuned", tuned=True),
        TunedGradientDescent(),
        TunedSGD(),
        DoubleNoiseNewton(),
        PublishedAdaSSP(),
        TunedStatistics(),
        *other,
        OneShotOracle(),
        Constant(),
    )
