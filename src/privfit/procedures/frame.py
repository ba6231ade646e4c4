"""Coordinates in which a log-concave density on a ball has about unit width. They save time and nothing else."""

import numpy as np

from privfit._checks import FloatArray
from privfit.procedures.tangent_boxes import Exponent, Frame

_DESCENTS = 7
_SIZES = 4.0 ** -np.arange(10.0)
_HALVINGS = 2.0 ** -np.arange(0.0, 22.0)


def frame_of(exponent: Exponent, moment: FloatArray, radius: float) -> Frame:
    """Return a frame around about the minimum of the exponent, on the axes of a second moment.

    Parameters
    ----------
    exponent : callable
        Convex on the ball; asked a fixed number of times.
    moment : array of shape (p, p)
        Second moment of the rows, ridge included: the shape of the Hessian where rows bend alike.
    radius : float
    """
    p = moment.shape[0]
    size, turn = np.linalg.eigh(0.5 * (moment + moment.T))
    size = np.maximum(size, 1e-12 * max(float(size[-1]), 1e-300))
    frame = Frame(np.zeros(p), turn / np.sqrt(size), radius)
    for _ in range(_DESCENTS):
        frame = Frame(_lower(exponent, frame), frame.turn, radius)
    unit = turn.T[None, :, :] * (_HALVINGS * radius)[:, None, None]
    steps = np.concatenate([unit, -unit], axis=1).reshape(-1, p)
    at = frame.center + steps
    value = exponent(np.concatenate([frame.center[None], frame.towards(at)]))[0]
    rise = (value[1:] - value[0]).reshape(_HALVINGS.size, 2, p).max(axis=1)
    wide = np.where(rise <= 0.5, _HALVINGS[:, None], 0.0).max(axis=0)
    width = np.maximum(wide, _HALVINGS[-1]) * radius
    return Frame(frame.center, turn * width, radius)


def _lower(exponent: Exponent, frame: Frame) -> FloatArray:
    """Return the lowest of points downhill of the centre, in the metric of the frame."""
    gradient = exponent(frame.center[None])[1][0]
    direction = frame.turn @ (frame.turn.T @ gradient)
    length = float(np.linalg.norm(direction))
    if not length > 0:
        return frame.center
    steps = frame.center - (2.0 * frame.radius / length * _SIZES)[:, None] * direction
    tried = np.concatenate([frame.center[None], frame.towards(steps)])
    return tried[exponent(tried)[0].argmin()]
