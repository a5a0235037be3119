"""ByzFL's MNIST heat map: the worst of three attacks by heterogeneity and number of Byzantine clients.

Robust distributed SGD with ten honest clients, as ByzFL's configuration has it: momentum 0.9, batches of 25, rate 0.1.
A defence clips rows to norm 2, mixes nearest neighbours, then takes a trimmed mean or a geometric median; the searched
attacks try out the whole defence. The mean is run as well: without protection an attack must bite.
"""

import functools

import jax
import xarray as xr

from experiments.anchors import networks
from experiments.anchors.heat_map_claims import MEAN, NONE, Config, caveats, claims, draw
from experiments.fedrep.cells import Problem, Setting, cell, problem
from experiments.harness import Outcome
from experiments.problem import Task, load
from experiments.resuming import next_run
from fedjax_priv import aggregators, metrics
from fedjax_priv.base import Aggregator
from fedjax_priv.runs.sweep import sweep

NAMES = {NONE: "none", "SignFlipping": "sign flip", "Opt-IPM": "optimal FoE", "Opt-ALIE": "optimal ALIE"}
"""By ByzFL's name that of `fedrep.cells`."""


def run(config: Config) -> Outcome:
    """Two programs for each number of Byzantine clients; all else is traced."""
    maps = [of_number(config, f) for f in config.num_byzantine]
    return judge(config, xr.Dataset({"accuracy": xr.concat(maps, xr.Variable("f", list(config.num_byzantine)))}))


def judge(config: Config, result: xr.Dataset) -> Outcome:
    """The outcome from the data of the runs."""
    return Outcome(
        draw(result.accuracy), result, claims(result.accuracy, config.dataset != "mnist"), caveats(config, result)
    )


def defences(config: Config, num_byzantine: int) -> dict[str, Aggregator]:
    """By the map's name, and the mean, which nothing protects."""
    behind = aggregators.clipping(2.0), aggregators.nearest_neighbour_mixing(num_byzantine)
    last = {
        "GM": aggregators.weiszfeld(steps=3, nu=0.1, start="zero"), "TM": aggregators.trimmed_mean(num_byzantine)
    }  # fmt: skip
    robust = {name: aggregators.pre_aggregated(*behind, last[name]) for name in config.rules}
    return robust | {MEAN: aggregators.mean()._replace(most_byzantine=None)}


def shared(config: Config, setting: Setting) -> Problem:
    """80% of the training samples, ByzFL's network, test accuracy."""
    whole, model = load(setting.task), networks.byzfl(config.dataset)
    return problem(setting, config.seed)._replace(
        model=model, evaluate=metrics.accuracy(model, whole.x_test, whole.y_test)
    )


def of_number(config: Config, num_byzantine: int) -> xr.DataArray:
    """Accuracy by `rule`, `attack`, `gamma`, `seed` and `evaluation`."""
    setting = Setting(Task(config.dataset), num_byzantine=num_byzantine, gammas=config.gammas)  # pyright: ignore[reportArgumentType]
    of = shared(config, setting)
    parts = [of_rules(config, setting, of, rules) for rules in searched_alike(defences(config, num_byzantine))]
    return xr.concat(parts, "rule")


def searched_alike(known: dict[str, Aggregator]) -> list[dict[str, Aggregator]]:
    """Rules that turn with their rows, then the others: a search for an attack costs the former next to nothing."""
    parts = ({name: rule for name, rule in known.items() if rule.equivariant is turns} for turns in (True, False))
    return [part for part in parts if part]


def of_rules(config: Config, setting: Setting, of: Problem, known: dict[str, Aggregator]) -> xr.DataArray:
    """The same for some rules: one program."""
    attacks = {NONE: NAMES[NONE]} | {name: NAMES[name] for name in config.attacks}
    number = lambda names: {str(name): float(i) for i, name in enumerate(names)}
    axes = {
        "rule": number(known), "attack": number(attacks), "gamma": number(config.gammas),
        "seed": list(range(config.repeats)),
    }  # fmt: skip
    name = f"{setting.num_byzantine}-{'-'.join(known)}"
    system = functools.partial(cell, setting, of, known, tuple(attacks.values()), learning_rate=config.learning_rate)
    runs = sweep(
        system, axes, jax.random.key(config.seed), of.model.init, of.clients, rounds=config.rounds,
        every=config.every, evaluate=of.evaluate, at_once=config.at_once, keep=next_run(name), progress=False,
    )  # fmt: skip
    return runs.accuracy.reset_coords(drop=True).assign_coords(gamma=list(config.gammas))
