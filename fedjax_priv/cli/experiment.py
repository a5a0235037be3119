"""A system, its data and its model from options by name: what the command line runs."""

import inspect
import pathlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import jax
import optax

from fedjax_priv import _validate, clients, data, losses, metrics, models, systems
from fedjax_priv.base import Algorithm, ClientData, Local, Model
from fedjax_priv.cli.byzantine import byzantine_options, byzantine_parts
from fedjax_priv.cli.options import Choice, Option, Options, options_of, pick, takes
from fedjax_priv.data import Dataset
from fedjax_priv.data.client_arrays import PARTITIONS
from fedjax_priv.engine import processes
from fedjax_priv.engine.round import federated_round
from fedjax_priv.losses import Loss

OPTIMIZERS = {"sgd": optax.sgd, "adam": optax.adam}


class Experiment(NamedTuple):
    """What is run.

    `make` takes the options of the system, of its local training, of its server, of rules and attacks, and as
    `parts` arguments of the system that are no options.
    """

    make: Callable[..., Algorithm]
    local: Local
    loss: Loss
    model: Model
    data: ClientData
    evaluate: Callable[..., dict]  # params -> metrics on the test set


def groups(system: str) -> dict[str, Options]:
    """Options of an experiment with a system, by part; the first four are those of `Experiment.make`.

    Args:
      system: a name of `systems.__all__`.
    """
    function = getattr(systems, system)
    return {
        "system": _system_options(system),
        "training": _TRAINING if takes(function, "local") else {},
        "server": _SERVER if _takes_server(function) else {},
        "byzantine": byzantine_options(function),
        "data": options_of(_dataset) | _PARTITION.options("iid", "how samples are spread over clients.") | _CLIENTS,
        "model": _MODEL.options("mlp", "what is trained."),
    }


def experiment(system: str, values: Mapping[str, Any]) -> Experiment:
    """Loads the data and makes the model.

    Args:
      system: a name of `systems.__all__`.
      values: of all options of `groups(system)`.

    Raises:
      ValueError: a value is out of its range, or does not go with others.
      FileNotFoundError: the data set is not there.
    """
    dataset = _dataset(**pick(options_of(_dataset), values))
    model = _model(dataset, values)

    loss = losses.softmax_cross_entropy(model)

    def make(*, parts: Mapping[str, Any] = MappingProxyType({}), **point: Any) -> Algorithm:
        return _algorithm(system, model, loss, {**values, **point}, parts)

    evaluate = metrics.accuracy(model, dataset.x_test, dataset.y_test)
    return Experiment(make, _local(system, loss, values), loss, model, _clients(dataset, values), evaluate)


def _dataset(
    *,
    dataset: Literal["digits", "mnist", "cifar10"] = "digits",
    data_dir: pathlib.Path | None = None,
    data_seed: int = 0,
) -> Dataset:
    """The data set.

    Args:
      dataset: digits comes with scikit-learn, the others must have been prepared by tensorflow-datasets.
      data_dir: folder of tensorflow-datasets; $TFDS_DATA_DIR or ~/tensorflow_datasets if not given.
      data_seed: of the partition, and of the test set of digits.
    """
    _validate.seed(data_seed=data_seed)
    if dataset == "digits":
        if data_dir is not None:
            raise ValueError("data_dir is for dataset mnist or cifar10, got it with digits")
        return data.digits(seed=data_seed)
    return {"mnist": data.mnist, "cifar10": data.cifar10}[dataset](data_dir)


def _clients(dataset: Dataset, values: Mapping[str, Any]) -> ClientData:
    """Of several processes, each stacks the samples of its own clients."""
    n, options = values["num_clients"], _PARTITION.arguments(values)
    several = jax.process_count() > 1
    mine = processes.clients_of_process(n) if several else None
    own = data.federate(dataset, n, values["partition"], seed=values["data_seed"], clients=mine, **options)
    return processes.distribute(own, n) if several else own


def _model(dataset: Dataset, values: Mapping[str, Any]) -> Model:
    return MODELS[values["model"]](dataset.x_train.shape[1:], dataset.num_classes, **_MODEL.arguments(values))


def _cifar_cnn(input_shape: tuple[int, ...], num_classes: int) -> Model:
    if input_shape != (32, 32, 3):
        raise ValueError(f"model cifar_cnn is for images of 32x32x3, got {'x'.join(map(str, input_shape))}")
    return models.cifar_cnn(num_classes)


def _server(
    *, optimizer: Literal["sgd", "adam"] = "sgd", server_learning_rate: float = 1.0
) -> optax.GradientTransformation:
    """The server's optimizer.

    Args:
      optimizer: what takes the clients' mean update as a gradient.
      server_learning_rate: its step size; sgd with 1.0 subtracts the update.
    """
    _validate.positive(server_learning_rate=server_learning_rate)
    return OPTIMIZERS[optimizer](server_learning_rate)


def _local(system: str, loss: Loss, values: Mapping[str, Any]) -> Local:
    training = pick(_TRAINING, values)
    if training["num_epochs"] is None and training["num_steps"] is None:
        training |= _DURATION.get(system, {"num_epochs": 1})
    return clients.local_sgd(loss, **training)


def _algorithm(system: str, model: Model, loss: Loss, values: Mapping[str, Any], given: Mapping[str, Any]) -> Algorithm:
    function = getattr(systems, system)
    parts = byzantine_parts(function, values)
    if takes(function, "local"):
        parts["local"] = _local(system, loss, values)
    if _takes_server(function):
        parts["server"] = _server(**pick(_SERVER, values))
    if takes(function, "num_params"):
        parts["num_params"] = models.num_params(jax.eval_shape(model.init, jax.random.key(0)))
    return function(**{**parts, **pick(_system_options(system), values), **given})


def _hands_on(function: Callable) -> bool:
    """Whether a system passes other arguments on to `federated_round`."""
    return any(p.kind is p.VAR_KEYWORD for p in inspect.signature(function).parameters.values())


def _takes_server(function: Callable) -> bool:
    return takes(function, "server") or _hands_on(function)


def _system_options(system: str) -> dict[str, Option]:
    """The options of a system's signature, and the block; not the size of the model, which is known."""
    function = getattr(systems, system)
    found = options_of(function, without=("num_params",))
    if _hands_on(function):
        found["block"] = options_of(federated_round)["block"]
    return found | {name: _CLIENTS[name] for name in _CLIENTS if name in found}


MODELS = {
    "softmax": models.softmax_regression,
    "mlp": models.mlp,
    "mcmahan_cnn": models.mcmahan_cnn,
    "cifar_cnn": _cifar_cnn,
    "resnet20": models.resnet20,
}
_MODEL = Choice("model", MODELS, without=("input_shape", "num_classes"))
_PARTITION = Choice("partition", PARTITIONS, without=("num_clients", "seed"))
_CLIENTS = {"num_clients": Option(int, 100, "clients that share the data.")}
_TRAINING = options_of(clients.local_sgd, defaults={"learning_rate": 0.1, "batch_size": 10})
_DURATION = {"dp_sgd": {"num_steps": 1}}
"""Of local training, where it is not given."""
_SERVER = options_of(_server)
