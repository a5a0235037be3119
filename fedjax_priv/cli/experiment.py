"""A system, its data and its model from options by name: what the command line runs."""

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
from fedjax_priv.losses import Loss

OPTIMIZERS = {"sgd": optax.sgd, "adam": optax.adam}


class Experiment(NamedTuple):
    """What is run.

    `make` takes the options of the system, of its local training, of its server, of rules and attacks, and as
    `parts` arguments of the system that are no options.
    """

    make: Callable[..., Algorithm]
    local: Local
    training: Callable[[Loss], Local]  # `local` for another loss
    loss: Loss
    model: Model
    data: ClientData
    evaluate: Callable[..., dict]  # params -> metrics on the test set


def options_by_part(system: str) -> dict[str, Options]:
    """Options of an experiment with a system, by part; the first four are those of `Experiment.make`.

    Args:
      system: a name of `systems.__all__`.
    """
    function = getattr(systems, system)
    return {
        "system": {
            name: option._replace(help=_ABOUT.get(name, option.help))
            for name, option in _system_options(system).items()
        },
        "training": _TRAINING if takes(function, "local") else {},
        "server": _SERVER if takes(function, "server") else {},
        "byzantine": byzantine_options(function),
        "data": options_of(_dataset) | _PARTITION.options("iid", "how the samples are spread over clients.") | _CLIENTS,
        "model": _MODEL.options("mlp", "network to train."),
    }


def experiment(system: str, values: Mapping[str, Any]) -> Experiment:
    """Loads the data and makes the model.

    Args:
      system: a name of `systems.__all__`.
      values: of all options of `options_by_part(system)`.

    Raises:
      ValueError: a value is out of its range, or does not go with others.
      FileNotFoundError: the data set is not there.
    """
    dataset = _dataset(**pick(options_of(_dataset), values))
    shape, arguments = dataset.x_train.shape[1:], _MODEL.arguments(values)
    if values["model"] in _OF_IMAGES and len(shape) != 3:
        raise ValueError(f"model {values['model']} is for images, got rows of {shape[0]} numbers: use mlp or softmax")
    model = MODELS[values["model"]](shape, dataset.num_classes, **arguments)
    loss = losses.softmax_cross_entropy(model)

    def make(*, parts: Mapping[str, Any] = MappingProxyType({}), **point: Any) -> Algorithm:
        return _algorithm(system, model, loss, {**values, **point}, parts)

    evaluate = metrics.accuracy(model, dataset.x_test, dataset.y_test)
    training = lambda loss: _local(system, loss, values)
    return Experiment(make, training(loss), training, loss, model, _clients(dataset, values), evaluate)


def _dataset(
    *,
    dataset: Literal["digits", "mnist", "cifar10", "adult"] = "digits",
    data_dir: pathlib.Path | None = None,
    data_seed: int = 0,
) -> Dataset:
    """The data set.

    Args:
      dataset: samples to train on; digits comes with scikit-learn, mnist and cifar10 must have been prepared by
        tensorflow-datasets, and adult is read from its two files.
      data_dir: folder with the data of tensorflow-datasets, by default $TFDS_DATA_DIR or ~/tensorflow_datasets; or with
        adult.data and adult.test, which must be given with adult.
      data_seed: seed of the partition, and of the choice of a test set for digits.
    """
    _validate.seed(data_seed=data_seed)
    if dataset == "digits":
        if data_dir is not None:
            raise ValueError("data_dir is for dataset mnist, cifar10 or adult, got it with digits")
        return data.digits(seed=data_seed)
    if dataset == "adult":
        if data_dir is None:
            raise ValueError("data_dir must be given with dataset adult: the folder of adult.data and adult.test")
        return data.adult(data_dir)
    return {"mnist": data.mnist, "cifar10": data.cifar10}[dataset](data_dir)


def _clients(dataset: Dataset, values: Mapping[str, Any]) -> ClientData:
    """With several processes, each stacks the samples of its clients."""
    n, options = values["num_clients"], _PARTITION.arguments(values)
    several = jax.process_count() > 1
    mine = processes.clients_of_process(n) if several else None
    own = data.federate(dataset, n, values["partition"], seed=values["data_seed"], clients=mine, **options)
    return processes.distribute(own, n) if several else own


def _cifar_cnn(input_shape: tuple[int, ...], num_classes: int) -> Model:
    if input_shape != (32, 32, 3):
        raise ValueError(f"model cifar_cnn is for images of 32x32x3, got {'x'.join(map(str, input_shape))}")
    return models.cifar_cnn(num_classes)


def _server(
    *, optimizer: Literal["sgd", "adam"] = "sgd", server_learning_rate: float = 1.0
) -> optax.GradientTransformation:
    """The server's optimizer.

    Args:
      optimizer: the server's optimizer, for which the clients' mean update is a gradient.
      server_learning_rate: step size of the server; 1.0 with sgd applies the mean update as it is.
    """
    _validate.positive(server_learning_rate=server_learning_rate)
    return OPTIMIZERS[optimizer](server_learning_rate)


def _local(system: str, loss: Loss, values: Mapping[str, Any]) -> Local:
    training = pick(_TRAINING, values)
    if training["num_epochs"] is None and training["num_steps"] is None:
        training |= _DURATION.get(system, {"num_epochs": 1})
    local = clients.local_sgd(loss, **pick(_STEPS, training))
    return clients.once_per_model(local) if training["refuse_replays"] else local


def _algorithm(system: str, model: Model, loss: Loss, values: Mapping[str, Any], given: Mapping[str, Any]) -> Algorithm:
    function = getattr(systems, system)
    parts = byzantine_parts(function, values)
    if takes(function, "local"):
        parts["local"] = _local(system, loss, values)
    if takes(function, "server"):
        parts["server"] = _server(**pick(_SERVER, values))
    if takes(function, "num_params"):
        parts["num_params"] = models.num_params(jax.eval_shape(model.init, jax.random.key(0)))
    return function(**{**parts, **pick(_system_options(system), values), **given})


def _system_options(system: str) -> dict[str, Option]:
    """The options of a system; not the size of the model, which is known."""
    found = options_of(getattr(systems, system), without=("num_params", *_OF_PARTS.get(system, ())))
    return found | {name: _CLIENTS[name] for name in _CLIENTS if name in found}


MODELS = {
    "softmax": models.softmax_regression,
    "mlp": models.mlp,
    "mcmahan_cnn": models.mcmahan_cnn,
    "cifar_cnn": _cifar_cnn,
    "resnet20": models.resnet20,
}
_OF_IMAGES = {"mcmahan_cnn", "cifar_cnn", "resnet20"}
_MODEL = Choice("model", MODELS, without=("input_shape", "num_classes"), about={
    "padding": "padding of the convolutions, SAME or VALID.",
})  # fmt: skip
_PARTITION = Choice("partition", PARTITIONS, without=("num_clients", "seed"), about={
    "num_shards": "number of shards, each of one label; a multiple of `num_clients`; 300 in the SparseSecAgg paper.",
    "gamma": "fraction of the samples that is spread evenly; the others are sorted by label. In [0, 1].",
    "concentration": "concentration of the Dirichlet distribution, above 0; the smaller, the less alike clients are.",
    "min_size": "least number of samples of a client.",
    "labels_per_client": "number of labels that each client has.",
    "log_deviation": "standard deviation of the logarithms of the clients' sizes, above 0.",
    "min_per_label": "samples of each of its two labels that every client has.",
})  # fmt: skip
_CLIENTS = {"num_clients": Option(int, 100, "number of clients; the samples are spread over them.")}
_STEPS = options_of(clients.local_sgd, defaults={"learning_rate": 0.1, "batch_size": 10}, about={
    "learning_rate": "step size of a client, above 0.",
    "batch_size": "samples in a gradient step of a client.",
    "num_epochs": "passes of a client over its own samples in a round; 1 if neither this nor `num_steps` is given.",
    "num_steps": "gradient steps of every client in a round, however many samples it has; not with `num_epochs`.",
    "momentum": "momentum of local steps, in [0, 1).",
    "carry_momentum": "keep each client's velocity from round to round; otherwise it starts from zero every round.",
    "sample_clip": "clip the gradient of each sample to this norm; the gradient of a batch is their sum divided by "
    "`batch_size`. Without it, nothing is clipped.",
    "gradient_noise": "standard deviation of the Gaussian noise that a client adds to the gradient of each step.",
    "proximal": "mu of FedProx, which pulls a client's parameters towards those it started from.",
})  # fmt: skip
_TRAINING = _STEPS | {
    "refuse_replays": Option(bool, False, "clients train no model twice in a row (clients.once_per_model).")
}
_DURATION = {"dp_sgd": {"num_steps": 1}}
"""Of local training, if it is not given."""
_OF_PARTS = {"fedbuff": ("levels", "weight_levels", "leave")}
"""Options of systems about a part that no command line can give, `secure_sum`; `secure_fedbuff` has them."""
_ABOUT = {"block": "most clients trained and encoded at once. Without it, as many as fit the device."}
"""Other help for options of systems than that of their docstrings."""
_SERVER = options_of(_server)
