"""Online learners for `privfit.solvers.OnlineToBatch`: they see noisy vectors and move a point."""

from privfit.learners.base import AbstractLearner, AbstractPlayer, Feedback, Game
from privfit.learners.leader import FollowTheRegularizedLeader, OptimisticFTRL
from privfit.learners.mirror import OnlineMirrorDescent
from privfit.learners.parameter_free import ParameterFree
from privfit.learners.penalties import AbstractPenalty, ConcentrationPenalty, NoPenalty, SourcePenalty
from privfit.learners.strongly_convex import StronglyConvexOSD
from privfit.learners.subgradient import AdaGradNorm, OnlineSubgradientDescent

__all__ = [
    "AbstractLearner",
    "AbstractPenalty",
    "AbstractPlayer",
    "AdaGradNorm",
    "ConcentrationPenalty",
    "Feedback",
    "FollowTheRegularizedLeader",
    "Game",
    "NoPenalty",
    "OnlineMirrorDescent",
    "OnlineSubgradientDescent",
    "OptimisticFTRL",
    "ParameterFree",
    "SourcePenalty",
    "StronglyConvexOSD",
]
