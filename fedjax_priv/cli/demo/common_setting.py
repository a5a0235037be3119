"""What the systems of the demo have in common: clients, model, local training, and two runs of each system."""

from typing import NamedTuple

import jax
import xarray as xr
from jaxtyping import PyTree

from fedjax_priv import data, losses, metrics, models
from fedjax_priv.base import ClientData, Key, Local, Model
from fedjax_priv.cli.demo.case_table import Case, Size, turned
from fedjax_priv.clients import local_sgd
from fedjax_priv.data import Dataset
from fedjax_priv.keys import named
from fedjax_priv.losses import Loss
from fedjax_priv.runs.programs.evaluation import Evaluate
from fedjax_priv.runs.sweep import sweep

SAMPLES = 14
"""Of each client: equal numbers, which the theorem of CDP-FL asks for."""
HONEST, TURNED = 1.0, -10.0
"""What a client sends, in updates of its own: at -10 a tenth of all outweighs the others."""
NOISY = {"learning_rate": 0.3, "batch_size": SAMPLES, "num_steps": 5, "sample_clip": 1.0, "gradient_noise": 0.12}


class Setting(NamedTuple):
    """The work, which is the same for every system."""

    size: Size
    key: Key
    clients: ClientData
    params: PyTree
    loss: Loss
    evaluate: Evaluate

    def local(self, case: Case) -> Local:
        """What the clients of a system do."""
        if case.noisy:
            return local_sgd(self.loss, **NOISY)
        return local_sgd(self.loss, learning_rate=0.1, batch_size=10, num_epochs=5)

    def runs(self, case: Case, rounds: int) -> tuple[xr.Dataset, xr.Dataset]:
        """Of one program: all clients honest, and the first ones send `TURNED` times what they have learned."""
        make = lambda factor: case.make(turned(self.local(case), factor, self.size.byzantine))
        both = sweep(
            make, {"factor": [HONEST, TURNED]}, self.key, self.params, self.clients,
            rounds=rounds, evaluate=self.evaluate, every=min(5, rounds),
        )  # fmt: skip
        honest, attacked = (both.sel(factor=factor) for factor in (HONEST, TURNED))
        return honest.assign_attrs(failed_rounds=int(honest.failed_rounds)), attacked


def digits(size: Size) -> Dataset:
    """scikit-learn's, as many as the clients can share out equally."""
    whole, number = data.digits(), SAMPLES * size.clients
    return whole._replace(x_train=whole.x_train[:number], y_train=whole.y_train[:number])


def four_pixels(size: Size) -> Dataset:
    """The same digits, of which every fourth row and column is kept."""
    whole = digits(size)
    return whole._replace(x_train=whole.x_train[:, ::4, ::4], x_test=whole.x_test[:, ::4, ::4])


def setting(seed: int, samples: Dataset, hidden: tuple[int, ...], size: Size) -> Setting:
    """Samples over the clients at random, and a network."""
    model: Model = models.mlp(samples.x_train.shape[1:], samples.num_classes, hidden=hidden)
    key = jax.random.key(seed)
    return Setting(
        size,
        key,
        data.federate(samples, size.clients, seed=seed),
        model.init(named(key, "params")),
        losses.softmax_cross_entropy(model),
        metrics.accuracy(model, samples.x_test, samples.y_test),
    )
