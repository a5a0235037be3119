"""Whether two systems are made of the same parts, and so are the same program."""

import dataclasses
import functools
import inspect

import numpy as np

from fedjax_priv.base import RowsOptional, Stated
from fedjax_priv.layers.stacking import _Stack


def alike(one, other):
    """Whether two values are made of the same code, numbers and arrays: equal parts make equal programs.

    Functions are compared by their code and all that they close over, methods of a stack by its layers.
    """
    if isinstance(one, Stated | RowsOptional):
        fields = [field.name for field in dataclasses.fields(one)]
        return type(one) is type(other) and all(alike(getattr(one, name), getattr(other, name)) for name in fields)
    if isinstance(one, functools.partial):
        return isinstance(other, functools.partial) and alike(
            (one.func, one.args, one.keywords), (other.func, other.args, other.keywords)
        )
    if inspect.ismethod(one):
        return inspect.ismethod(other) and one.__func__ is other.__func__ and alike(one.__self__, other.__self__)
    if isinstance(one, _Stack):
        return isinstance(other, _Stack) and alike(one.layers, other.layers)
    if inspect.isfunction(one):
        one, other = inspect.unwrap(one), inspect.unwrap(other)
        cells = [[cell.cell_contents for cell in each.__closure__ or ()] for each in (one, other)]
        return one is other or (
            one.__code__ is other.__code__ and alike(*cells) and alike(one.__defaults__, other.__defaults__)
        )
    if isinstance(one, dict):
        return isinstance(other, dict) and alike(list(one.items()), list(other.items()))
    if isinstance(one, tuple | list):
        return type(one) is type(other) and len(one) == len(other) and all(map(alike, one, other))
    return one is other or bool(np.array_equal(one, other))


def parts_of(algorithm):
    """Of a round; some systems take data of any number of clients."""
    return algorithm.step.args[0]._replace(num_clients=None)
