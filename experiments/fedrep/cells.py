"""The cells of the robustness grid: rules, attacks, data of several heterogeneities, and the system that joins them."""

from collections.abc import Callable, Mapping
from typing import NamedTuple, cast

import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, PyTree

from experiments.problem import Task, load, model_of
from fedjax_priv import aggregators, attacks, data, losses, metrics
from fedjax_priv.attacks.by_name import ATTACKS as REGISTERED
from fedjax_priv.attacks.by_name import SEARCHED
from fedjax_priv.base import Aggregator, Algorithm, ClientData, Local, Model
from fedjax_priv.clients import local_sgd
from fedjax_priv.systems import robust_fedavg

RULES: Mapping[str, str] = {  # to the registry's names
    "mean": "mean", "median": "coordinate_median", "trimmed mean": "trimmed_mean",
    "geometric median": "geometric_median", "Krum": "krum", "multi-Krum": "multi_krum",
    "centered clipping": "centered_clipping", "MDA": "mda", "MoNNA": "monna", "Meamed": "meamed", "CAF": "caf",
    "SMEA": "smea",
}  # fmt: skip
HONEST, FLIPPED = "none", "label flip"
ATTACKS: Mapping[str, tuple[str, dict[str, float]] | None] = {  # ByzFL's, by the registry's names; None: honest
    HONEST: None,
    "sign flip": ("foe", {"scale": 1.0}),
    "FoE": ("foe", {"scale": 2.0}),
    "ALIE": ("alie", {"z": 1.5, "ddof": 1, "sign": 1}),
    "optimal FoE": ("optimal_foe", {}),
    "optimal ALIE": ("optimal_alie", {"ddof": 1, "sign": 1}),
    "mimic": ("mimic", {}),
    "Gaussian": ("gaussian", {}),
    "infinite": ("infinite", {}),
    FLIPPED: None,  # trained on flipped labels
}


class Setting(NamedTuple):
    """Data, model, clients; ByzFL's defaults but for the model."""

    task: Task = Task("mnist")
    num_honest: int = 10
    num_byzantine: int = 3
    gammas: tuple[float, ...] = (1.0, 0.5, 0.0)
    batch_size: int = 25
    momentum: float = 0.9
    weight_decay: float = 1e-4
    training_fraction: float = 0.8  # of the training samples; the others validate

    @property
    def num_clients(self) -> int:
        """Honest and Byzantine ones."""
        return self.num_honest + self.num_byzantine


class Problem(NamedTuple):
    """The data and the model, which all cells share."""

    model: Model
    x: np.ndarray  # [N, ...], samples that clients hold by number
    clients: ClientData  # NumPy; examples are numbers and labels, int32 [n, m, H] for H heterogeneities
    evaluate: Callable[[PyTree], Mapping[str, Array]]


def problem(setting: Setting, seed: int) -> Problem:
    """Data dealt to honest clients with each heterogeneity; Byzantine clients hold copies of what the first ones do."""
    whole = load(setting.task)
    order = np.random.default_rng(seed).permutation(len(whole.y_train))
    train, held = np.split(order, [int(setting.training_fraction * len(order))])
    deals = [_deal(whole.y_train[train], setting, gamma, seed) for gamma in setting.gammas]
    mine = np.stack(deals, axis=-1)
    mine = np.concatenate([mine[: setting.num_byzantine], mine])
    labels = whole.y_train[train][mine]
    count = np.full(setting.num_clients, mine.shape[1], np.int32)
    model = model_of(setting.task)
    measure = {
        "validation": metrics.accuracy(model, whole.x_train[held], whole.y_train[held]),
        "test": metrics.accuracy(model, whole.x_test, whole.y_test),
    }
    evaluate = lambda params: {name: of(params)["accuracy"] for name, of in measure.items()}
    return Problem(
        model, whole.x_train[train], ClientData((mine.astype(np.int32), labels), cast(Array, count)), evaluate
    )


def _deal(labels: np.ndarray, setting: Setting, gamma: float, seed: int) -> np.ndarray:
    """Sample numbers `[honest, m]`; what is left over after equal parts is left out."""
    parts = data.gamma_similarity(labels, setting.num_honest, seed, gamma=gamma)
    rng, size = np.random.default_rng(seed), min(map(len, parts))
    return np.stack([rng.permutation(part)[:size] for part in parts])


def cell(
    setting: Setting,
    shared: Problem,
    rules: Mapping[str, Aggregator],
    names: tuple[str, ...],
    *,
    rule: float,
    attack: float,
    gamma: float,
    learning_rate: float,
) -> Algorithm:
    """Robust distributed SGD at a point of the grid; `rule`, `attack` and `gamma` are places in their lists."""
    alone = len(rules) == 1  # then searched attacks see what the rule is made of
    defence = next(iter(rules.values())) if alone else aggregators.one_of(rule, list(rules.values()))
    chosen = attacks.one_of(attack, [_attack(name, defence) for name in names])
    local = local_sgd(
        _loss(shared, gamma), learning_rate=1 - setting.momentum, momentum=setting.momentum, carry_momentum=True,
        num_steps=1, batch_size=setting.batch_size,
    )  # fmt: skip
    return robust_fedavg(
        _flipping(local, attack, names),
        num_clients=setting.num_clients,
        num_byzantine=setting.num_byzantine,
        aggregate=defence,
        attack=chosen,
        server=optax.chain(optax.add_decayed_weights(setting.weight_decay), optax.sgd(learning_rate)),
        block=setting.num_clients,
    )


def _attack(label: str, defence: Aggregator) -> attacks.AnyAttack:
    if (found := ATTACKS[label]) is None:
        return lambda key, updates, honest, byzantine: updates
    name, arguments = found
    tried = [defence] if name in SEARCHED else []
    return REGISTERED[name](*tried, **arguments)


def _loss(shared: Problem, gamma: float) -> Callable[[PyTree, PyTree], Array]:
    of_samples, x = losses.softmax_cross_entropy(shared.model), jnp.asarray(shared.x)

    def loss(params: PyTree, examples: tuple[Array, Array]) -> Array:
        at = jnp.asarray(gamma, jnp.float32).astype(jnp.int32)
        sample, label = (rows[:, at] for rows in examples)
        return of_samples(params, (x[sample], label))

    return loss


def _flipping(local: Local, attack: float, names: tuple[str, ...]) -> Local:
    """Byzantine clients train on wrong labels where the attack is that."""
    if FLIPPED not in names:
        return local

    def apply(key, memory, params, data, cohort):
        flips = cohort.byzantine & (jnp.asarray(attack) == names.index(FLIPPED))
        return local.apply(key, memory, params, attacks.flip_labels(data, flips, 10), cohort)

    return local._replace(apply=apply)
