"""What Dask is given to do: tasks for partitions, whose names and errors quote nothing, and no warnings.

Names of tasks are drawn anew for each computation, and are no digests.
"""

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, TypeAlias, final

from dask.base import compute, persist
from dask.delayed import Delayed, delayed
from dask.highlevelgraph import HighLevelGraph
from distributed import futures_of, rejoin, secede

from privfit._silent import silence
from privfit.data.partitions import Failure
from privfit.errors import UnexpectedError

Holder: TypeAlias = tuple[str, int]
"""A worker, "" if none is known, and its threads."""

_SENT = 2**12
"""Numbers up to which what tasks share is sent with each of them: to wait for another task takes longer."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class Beside:
    """What all tasks of a pass are given by name, and about how many numbers it has."""

    size: int
    shared: Mapping[str, Any]


def tasks_of(
    work: Callable[..., Any],
    name: str,
    arguments: Sequence[tuple[Any, ...]],
    beside: Beside | None = None,
) -> list[Delayed]:
    """Return a task for each tuple of arguments, which are tasks or plain numbers.

    A name that Dask makes by itself could be a digest of the arguments. Those of each call are a group of
    their own: tasks of a large group that needs few others go where there is least to do, not to their rows.
    """
    shared: dict[str, Any] = {}
    if beside is not None and beside.size > _SENT:
        shared = {key: node(value) for key, value in beside.shared.items()}
    elif beside is not None:
        work = partial(work, **beside.shared)
    layer, made = f"privfit-{name}-{uuid.uuid4().hex}", delayed(work, pure=False, traverse=False)
    tasks = [made(*one, dask_key_name=(layer, k), **shared) for k, one in enumerate(arguments)]
    return _in_one_layer(layer, tasks)


def _in_one_layer(name: str, tasks: list[Delayed]) -> list[Delayed]:
    """Return the same tasks in one layer of their graph: to cull one takes Dask as long as it has others.

    Dask makes a layer of each.
    """
    layers: dict[Any, Any] = {}
    needs: dict[Any, set[Any]] = {}
    for one in tasks:
        layers |= one.dask.layers
        needs |= one.dask.dependencies
    own = [one.key for one in tasks]
    layers[name] = {key: layers.pop(key)[key] for key in own}
    needs[name] = set(chain.from_iterable(needs.pop(key) for key in own))
    graph = HighLevelGraph(layers, needs)
    return [Delayed(key, graph, layer=name) for key in own]


def node(value: Any) -> Delayed:
    """Return what tasks share: it is sent once, and not looked into."""
    return delayed(value, name=f"privfit-shared-{uuid.uuid4().hex}", traverse=False)


@final
class Kept:
    """Tasks whose outcomes workers keep, from the first question on that needs them.

    A client talks to a cluster at most every ten milliseconds, be it that it asks or that it lets go. So what
    is to be kept is told with the question, and what the last question about a table was about is let go once
    the next one is on its way.

    Parameters
    ----------
    tasks : list of Delayed
    *needs : Kept
        What they need, of the same table.
    """

    __slots__ = ("_last", "_needs", "_told", "tasks")

    def __init__(self, tasks: list[Delayed], *needs: "Kept") -> None:
        self.tasks, self._needs, self._told = tasks, needs, False
        self._last: list[object] = needs[0]._last if needs else []  # one for all of a table

    def __repr__(self) -> str:
        return "Kept(<private rows>)"

    def answers(self, tasks: list[Delayed]) -> tuple[Any, ...]:
        """Return what tasks do that need this, or raise the error that one of them has returned."""
        untold = list(dict.fromkeys(self._untold()))
        wanted = chain(*(one.tasks for one in untold), tasks)
        outcomes = iter(guarded(lambda: persist(*wanted, traverse=False)))
        for one in untold:
            one._tell([next(outcomes) for _ in one.tasks])
        asked = list(outcomes)
        self._last[:] = self, asked
        return _usable(guarded(lambda: _brought(asked)))

    def _untold(self) -> Iterator["Kept"]:
        """Return what workers are to keep for this and have not been told of, this included."""
        if not self._told:
            for one in self._needs:
                yield from one._untold()
            yield self

    def _tell(self, outcomes: list[Delayed]) -> None:
        """Take note of what workers keep from now on, and need not make again."""
        self.tasks, self._needs, self._told = outcomes, (), True


def computed(tasks: list[Delayed]) -> tuple[Any, ...]:
    """Return what tasks do, or raise the error that one of them has returned."""
    return _usable(guarded(lambda: compute(*tasks, traverse=False)))


def _usable(answers: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return answers none of which is an error."""
    for answer in answers:
        if isinstance(answer, Failure):
            raise answer.error
    return answers


def _brought(tasks: list[Delayed]) -> tuple[Any, ...]:
    """Return the outcomes of persisted tasks."""
    futures = _futures(tasks)
    if not futures:
        return compute(*tasks, traverse=False)
    with _aside():
        return tuple(futures[0].client.gather(futures))


@contextmanager
def _aside() -> Iterator[None]:
    """Leave the place of a task to others while its thread waits for them: it may be the last that is free.

    `dask.compute` does so, too.
    """
    left = False
    with suppress(Exception):  # no task of a worker, or one that has left its place before
        secede()
        left = True
    try:
        yield
    finally:
        if left:
            rejoin()


def _futures(tasks: list[Delayed]) -> list[Any]:
    """Return what stands for the outcomes of persisted tasks on a cluster, one each; none elsewhere."""
    return [future for one in tasks for future in futures_of(one)]


def together(held: Sequence[Holder], most: int) -> list[tuple[int, ...]]:
    """Return the numbers of what workers hold in groups, of which a task each can take all.

    What one worker of a cluster holds is put together, up to ``most`` of it, as far as there is a group left
    for each of its threads: a task takes time beside what it does. Elsewhere all are alone.
    """
    groups: list[tuple[int, ...]] = []
    for worker, threads in dict.fromkeys(held):
        here = [k for k, one in enumerate(held) if one == (worker, threads)]
        size = min(-(-len(here) // threads), most) if worker else 1
        groups += [tuple(here[k : k + size]) for k in range(0, len(here), size)]
    return sorted(groups)


def holders_of_tasks(tasks: list[Delayed]) -> tuple[Holder, ...]:
    """Return who holds what each task has returned, if they are persisted."""
    return guarded(lambda: _holders(_futures(tasks), len(tasks)))


def holders_of_pieces(collection: Any, count: int) -> tuple[Holder, ...]:
    """Return who holds each partition of a collection, if it is persisted itself.

    What is only made of persisted partitions may be larger than these by any factor, and is not there yet.
    """

    def holders() -> tuple[Holder, ...]:
        numbered = [one for one in futures_of(collection) if isinstance(one.key, tuple) and len(one.key) > 1]
        futures = {one.key[1]: one for one in numbered}
        itself = len(collection.__dask_graph__()) <= 2 * count  # each of them, or another name for it
        known = itself and futures.keys() == set(range(count))
        return _holders([futures[k] for k in range(count)] if known else [], count)

    return guarded(holders)


def _holders(futures: list[Any], count: int) -> tuple[Holder, ...]:
    if not futures:
        return (("", 1),) * count
    client = futures[0].client
    threads, workers = client.nthreads(), client.who_has(futures)
    known = [[one for one in workers.get(future.key, ()) if one in threads] for future in futures]
    return tuple((one[0], threads[one[0]]) if one else ("", 1) for one in known)


def guarded(work: Callable[[], tuple[Any, ...]]) -> tuple[Any, ...]:
    """Return what Dask does; its errors may quote what it was given to do, and its warnings say how long."""
    try:
        with silence:
            return work()
    except Exception as error:
        failure = UnexpectedError(
            f"Dask failed with {type(error).__name__}; its message is withheld because it may quote data. "
            "Compute the collection by itself to see it, and look whether workers were lost"
        )
    raise failure
