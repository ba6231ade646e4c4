"""Compiled functions are compiled when they are first called, once, for the types that were said."""

import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields

import numpy as np
import pytest
from numba import float64, void
from numba.core import event
from numba.extending import is_jitted

from privfit._compiling import lazily_compiled
from privfit.losses.base import evaluate
from privfit.losses.outside import SIGNATURE
from privfit.procedures import tree
from tests.problem.conftest import LOSSES


@lazily_compiled(void(float64[::1], float64), nogil=True)
def doubled(values, factor):
    """Multiply in place."""
    for i in range(values.size):
        values[i] *= factor


class Compilations(event.Listener):
    def __init__(self):
        self.names = []

    def on_start(self, event):
        self.names.append(event.data["dispatcher"].py_func.__name__)

    def on_end(self, event):
        pass


def test_several_threads_compile_once_and_types_are_those_that_were_said():
    values = np.arange(4.0)
    with event.install_listener("numba:compile", heard := Compilations()), ThreadPoolExecutor(4) as threads:
        for done in [threads.submit(doubled, values[k : k + 1], 2.0) for k in range(4)]:
            done.result()
    assert values.tolist() == [0.0, 2.0, 4.0, 6.0]
    assert heard.names.count("doubled") <= 1  # none if it was kept on disk
    for others in (np.arange(4), np.zeros(8)[::2], np.zeros((2, 2))):
        with pytest.raises(TypeError):
            doubled(others, 2.0)


def test_it_is_known_by_its_own_name():
    assert (doubled.__name__, doubled.__doc__) == ("doubled", "Multiply in place.")
    assert pickle.loads(pickle.dumps(tree._merge)) is tree._merge  # noqa: S301 -- our own


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_functions_of_losses_are_compiled_for_one_type_of_arguments(loss):
    """Numba numbers the files of a function's types; two processes may give one number to two of them."""
    evaluate(loss.functions.slope, 0.0, 1.0, s=1.0, loss=loss)
    functions = [getattr(loss.functions, field.name) for field in fields(loss.functions)]
    made = [one for one in functions if is_jitted(one)]
    found = {signature.args for one in made for signature in one.nopython_signatures}
    assert found <= {SIGNATURE.args}
    assert found or not loss.compiled


def test_no_module_compiles_when_it_is_imported():
    code = """
import pkgutil, importlib, privfit
from numba.core.dispatcher import Dispatcher
made = Dispatcher.compile
Dispatcher.compile = lambda self, signature: (print(self), made(self, signature))[1]
for one in pkgutil.walk_packages(privfit.__path__, "privfit."):
    if "__main__" not in one.name and "dask" not in one.name and "partitions" not in one.name:
        importlib.import_module(one.name)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603 -- ours
    assert not done.stdout
