"""Coordinates in which a log-concave density on a ball has about unit width; they only save time."""

import numpy as np

from privfit._checks import FloatArray
from privfit.procedures.tangent_boxes import Exponent, Frame

_DESCENTS = 9
_SIZES = 4.0 ** -np.arange(10.0)
_HALVINGS = 2.0 ** -np.arange(0.0, 22.0)
_AT_SPHERE = 0.9999


def about_minimum(exponent: Exponent, moment: FloatArray, radius: float) -> FloatArray:
    """Return a point of the ball near the minimum of the exponent, after a fixed number of descents.

    Parameters
    ----------
    exponent : callable
        Convex on the ball.
    moment : array of shape (p, p)
        Second moment of the rows, ridge included: the metric of the descents.
    radius : float
    """
    frame = Frame(np.zeros(moment.shape[0]), _axes(moment), radius)
    for _ in range(_DESCENTS):
        frame = Frame(_lower(exponent, frame), frame.turn, radius)
    return frame.center


def frame_around(exponent: Exponent, center: FloatArray, shape: FloatArray, radius: float) -> Frame:
    """Return the frame on the axes of a matrix, each as wide as the exponent takes to rise by 1/2.

    At the sphere one axis is its normal.

    Parameters
    ----------
    exponent : callable
        Convex on the ball; asked once, at a fixed number of points.
    center : array of shape (p,)
        In the ball.
    shape : array of shape (p, p)
        About proportional to the Hessian of the exponent.
    radius : float
    """
    p = center.size
    normal = _normal(center, radius)
    along = np.eye(p) - np.outer(normal, normal)
    turn = _axes(along @ shape @ along + 2.0 * np.trace(shape) * np.outer(normal, normal))
    turn /= np.linalg.norm(turn, axis=0)
    frame = Frame(center, turn, radius)
    unit = turn.T[None, :, :] * (_HALVINGS * radius)[:, None, None]
    steps = np.concatenate([unit, -unit], axis=1).reshape(-1, p)
    value = exponent(np.concatenate([center[None], frame.towards(center + steps)]))[0]
    rise = (value[1:] - value[0]).reshape(_HALVINGS.size, 2, p).max(axis=1)
    first = np.where((rise <= 0.5).any(axis=0), (rise <= 0.5).argmax(axis=0), _HALVINGS.size - 1)
    at_first = np.maximum(rise[first, np.arange(p)], 1e-3)
    wide = _HALVINGS[first] * np.clip(np.sqrt(0.5 / at_first), 1.0, 2.0)  # as if the rise were quadratic
    return Frame(center, turn * (wide * radius), radius)


def _axes(shape: FloatArray) -> FloatArray:
    """Return the eigenvectors of a symmetric matrix, over the roots of its eigenvalues.

    Where every slope is at its bound the Hessian is 0: the floor keeps squared lengths from overflowing.
    """
    size, turn = np.linalg.eigh(0.5 * (shape + shape.T))
    return turn / np.sqrt(np.maximum(size, 1e-12 * max(float(size[-1]), 1e-100)))


def _lower(exponent: Exponent, frame: Frame) -> FloatArray:
    """Return the lowest of points downhill of the centre, in the metric of the frame.

    On the sphere, where downhill is outwards, the descent goes along the sphere.
    """
    gradient = exponent(frame.center[None])[1][0]
    normal = _normal(frame.center, frame.radius)
    along = np.eye(gradient.size) - np.outer(normal, normal)
    keep = along if normal @ gradient < 0.0 else np.eye(gradient.size)
    direction = keep @ frame.turn @ (frame.turn.T @ (keep @ gradient))
    length = float(np.linalg.norm(direction))
    if not length > 0:
        return frame.center
    steps = frame.center - (2.0 * frame.radius / length * _SIZES)[:, None] * direction
    tried = np.concatenate([frame.center[None], frame.towards(steps)])
    return tried[exponent(tried)[0].argmin()]


def _normal(center: FloatArray, radius: float) -> FloatArray:
    """Return the unit vector away from 0 for a point at the sphere, and 0 for others."""
    norm = float(np.linalg.norm(center))
    return center / norm if norm > _AT_SPHERE * radius else np.zeros_like(center)
