"""Private computations on the rows that are more than one noisy mean."""

from abc import ABC, abstractmethod

from privfit._checks import FloatArray
from privfit.privacy.mechanisms import NoiseSource
from privfit.problem.objective import Problem
from privfit.problem.plan import PlannedRelease
from privfit.problem.rows import Rows


class AbstractProcedure(ABC):
    """A computation that the oracle carries out on the rows, of which only the noisy outcome leaves.

    Subclasses are final, frozen dataclasses of public numbers. Whatever `carry_out` computes on the way is
    secret: it must not be kept, logged, or decide an error, and the time it takes is fixed by public numbers
    where the method allows.
    """

    __slots__ = ()

    @abstractmethod
    def planned(self, problem: Problem) -> PlannedRelease:
        """Return the entry of the plan that the outcome uses up, cost included.

        It follows from the procedure and the problem alone; the oracle compares it with the plan's.
        """

    @abstractmethod
    def carry_out(self, problem: Problem, rows: Rows, noise: NoiseSource) -> FloatArray:
        """Compute the outcome and add its noise.

        Notes
        -----
        *Guarantee.* If ``noise.private``, the outcome costs ``planned(problem).event``.
        """
