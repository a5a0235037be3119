"""Three ways to keep within a power limit (eq. 26): accuracy, energy, who is heard, and what can be proved.

"gradient" scales update and noise by the norm of the update, as the paper does; "bound" scales both by L instead;
"signal" scales the update alone, and who cannot carry its noise does not join. All three have the same gains and coins.
"""

import functools
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import xarray as xr
from jax.typing import ArrayLike

from experiments.harness import Outcome
from experiments.problem import load, model_of, num_params
from experiments.resuming import next_run
from experiments.wireless import power_claims, power_picture, training
from experiments.wireless.leakage import DELTA_LOCAL, limited
from experiments.wireless.printed import GAIN
from experiments.wireless.training import Setting
from fedjax_priv import data, losses, metrics
from fedjax_priv.base import Algorithm, ClientData
from fedjax_priv.clients import local_sgd
from fedjax_priv.data.client_arrays import Partition
from fedjax_priv.ledger import ledger, worst
from fedjax_priv.runs.sweep import sweep
from fedjax_priv.systems import wireless
from fedjax_priv.theory import wireless as theory

CONTROLS = ("gradient", "bound", "signal")
PARTITIONS: tuple[Partition, ...] = ("iid", "shards")
AMPLE = 60.0
"""Decibels on top of every limit with which it binds nobody."""


class Config(NamedTuple):
    """Uniform sampling; the limits are the paper's SNR of the groups."""

    setting: Setting
    noise_variances: tuple[float, ...] = (0.1, 0.8, 1.6)
    participation: float = 0.3
    clip: float = 1.0
    rounds: int = 100
    seed: int = 0

    @property
    def cases(self) -> np.ndarray:
        """`[case, 2]`: sigma^2, and decibels on top of the limits.

        The last two are controls: a limit that binds nobody; and noise of a hundredth of L^2, with a quarter of L^2
        for the weakest users, so that it is their updates that a limit is about.
        """
        d, square = num_params(self.setting.task), self.clip**2
        less = 10 * np.log10(square / 4 / d / training.RECEIVER_NOISE) - min(self.setting.snr_db)
        limits = ((v, 0.0) for v in self.noise_variances)
        return np.array([*limits, (self.noise_variances[-1], AMPLE), (square / 100 / d, less)])


def case_names(config: Config) -> list[str]:
    return [*(f"sigma^2 = {v:g}" for v in config.noise_variances), power_claims.FREE, power_claims.UPDATES]


def algorithm(config: Config, control: Any, *, case: ArrayLike, own_noise: float = 1.0) -> Algorithm:
    """One run; `case` is a row of `Config.cases`, `own_noise` 0 leaves the noise of users out."""
    setting, row = config.setting, jnp.asarray(case, jnp.int32)
    variance, more = (jnp.asarray(column, jnp.float32)[row] for column in config.cases.T)
    loss = losses.softmax_cross_entropy(model_of(setting.task))
    return wireless(
        local_sgd(loss, learning_rate=1.0, batch_size=setting.batch_size, num_steps=1),
        clip=config.clip, noise_variance=variance if own_noise else 0.0, receiver_noise=training.RECEIVER_NOISE,
        participation=config.participation, known_count=setting.known_count, power_control=control,
        snr_db=jnp.asarray(training.snr_of(setting), jnp.float32) + more, server=optax.adam(setting.learning_rate),
    )  # fmt: skip


def run(config: Config) -> Outcome:
    """All runs, and what came of them."""
    users = {partition: _users(config, partition) for partition in PARTITIONS}
    runs = {control: trained(config, control, users) for control in CONTROLS}
    found = xr.concat([_summary(config, each) for each in runs.values()], "control").assign_coords(control=list(runs))
    first = {control: each.sel(partition=PARTITIONS[0]).isel(seed=0) for control, each in runs.items()}
    sizes = {"num_params": num_params(config.setting.task)}
    return judge(config, xr.merge([found, proved(config, first, users[PARTITIONS[0]])]).assign_attrs(sizes))


def _users(config: Config, partition: Partition) -> ClientData:
    n = config.setting.num_users
    two_shards: dict[str, Any] = {"num_shards": 2 * n} if partition == "shards" else {}
    return data.federate(load(config.setting.task), n, partition, seed=config.seed, **two_shards)


def trained(config: Config, control: str, users: Mapping[str, ClientData]) -> xr.Dataset:
    """Every partition, case and seed."""
    setting = config.setting
    dataset, model = load(setting.task), model_of(setting.task)
    axes = {
        "partition": list(users), "case": list(map(float, range(len(config.cases)))), "seed": range(setting.repeats),
    }  # fmt: skip
    return sweep(
        functools.partial(algorithm, config, control), axes, jax.random.key(config.seed), model.init,
        lambda partition: users[partition], rounds=config.rounds, every=max(1, config.rounds // setting.evaluations),
        keep=next_run(), progress=False, evaluate=metrics.accuracy(model, dataset.x_test, dataset.y_test),
    ).assign_coords(case=case_names(config))  # fmt: skip


def _summary(config: Config, runs: xr.Dataset) -> xr.Dataset:
    """By partition, case and seed: accuracy; and by group of users what is heard of them and their energy.

    `heard` is the mean amplitude, of silent users 0, over that without a limit; `energy` a mean over users and rounds,
    and `peak` the largest energy of a transmission over the limit without headroom, both of a channel use.
    """
    setting, d = config.setting, num_params(config.setting.task)
    group = np.repeat(np.arange(len(setting.groups)), setting.groups)
    of_groups = lambda values: values.assign_coords(client=group).groupby("client")
    named = lambda values: values.rename(client="group").assign_coords(group=list(setting.snr_db))
    power = xr.DataArray(training.RECEIVER_NOISE * 10 ** (training.snr_of(setting) / 10), dims="client")
    return xr.Dataset({
        "accuracy": runs.accuracy.rename(evaluation="iteration"), "failed": runs.failed_rounds,
        "heard": named(of_groups(runs.amplitude.mean("round")).mean("client")) / config.participation,
        "energy": named(of_groups(runs.energy.mean("round")).mean("client")) / d,
        "peak": named(of_groups((runs.energy / power).max("round")).max("client")) / d,
        "limited": limited(runs, setting), "joined": runs.counted.sum("client").mean("round"),
    })  # fmt: skip


def proved(config: Config, runs: dict[str, xr.Dataset], users: ClientData) -> xr.Dataset:
    """What the ledger says of a run of every case: eps of all rounds, NaN where nothing is proved, and why.

    `without_own_noise` is of the same senders, had they added no noise; `known_set` of "signal", if the server knew who
    sends, as it may under "bound"; `aligned` of rounds without a power limit.
    """
    cases = case_names(config)
    asked = lambda control, run, **how: ledger(algorithm(config, control, **how), run, users, delta=DELTA_LOCAL)[0]
    number = lambda figure: np.nan if (eps := worst(figure)) is None else eps
    found = [
        [asked(control, run.isel(case=case), case=case).proved for case in range(len(cases))]
        for control, run in runs.items()
    ]
    alone = [
        number(asked(control, run.isel(case=0).drop_vars("mechanism", errors="ignore"), case=0, own_noise=0.0).proved)
        for control, run in runs.items()
    ]
    how = {"delta": DELTA_LOCAL, "rounds": config.rounds}
    rounds = [_round(config, variance) for variance in config.cases[:, 0]]
    joining = runs["signal"].join_probability.transpose("case", "round", "client").values.astype(np.float64)
    known = [
        theory.known_set_epsilon(one._replace(participation=p), **how) for one, p in zip(rounds, joining, strict=True)
    ]
    return xr.Dataset({
        "eps": (("control", "case"), [[number(figure) for figure in row] for row in found]),
        "why": (("control", "case"), [[figure.why for figure in row] for row in found]),
        "without_own_noise": ("control", alone), "known_set": ("case", np.array(known, float)),
        "aligned": ("case", np.array([theory.rigorous_epsilon(one, **how) for one in rounds], float)),
    }, {"control": list(runs), "case": cases})  # fmt: skip


def _round(config: Config, variance: float) -> theory.Round:
    n = config.setting.num_users
    return theory.Round(n, config.participation, config.clip, variance, training.RECEIVER_NOISE)


def expected(config: Config) -> xr.DataArray:
    """`heard` by quadrature over the law of the gain, `[form, case, group]`: of "bound", "signal", and "zero updates",
    which "gradient" is not above.
    """
    d, square = num_params(config.setting.task), config.clip**2
    h = GAIN.ppf((np.arange(20_000) + 0.5) / 20_000)  # quantiles: "signal" jumps
    forms = {
        "bound": lambda power, v: h * np.sqrt(d * power / (square + d * v)),
        "signal": lambda power, v: np.sqrt(np.maximum(h**2 * power - v, 0) * d / square),
        "zero updates": lambda power, v: h * np.sqrt(power / v),
    }
    power = lambda decibels: training.RECEIVER_NOISE * 10 ** (decibels / 10)
    values = [
        [[np.minimum(1, form(power(snr + more), v)).mean() for snr in config.setting.snr_db]
         for v, more in config.cases]
        for form in forms.values()
    ]  # fmt: skip
    where = {"form": list(forms), "case": case_names(config), "group": list(config.setting.snr_db)}
    return xr.DataArray(values, where, tuple(where))


def judge(config: Config, result: xr.Dataset) -> Outcome:
    """Figure and claims, from the data of a run."""
    caveats = [
        training.describe(config.setting) + "; and shards of two labels",
        f"uniform p = {config.participation:g}, L = {config.clip:g}, T = {config.rounds:,}; the limits are energies of "
        f"a round, d N0 times the SNR; without a limit: {AMPLE:g} dB more",
        f"eps is of all rounds of the first seed at delta = {DELTA_LOCAL:g}, replacement; of 'bound' the accountant "
        "counts the senders as known, of 'signal' their number alone",
        "energy of a channel use, in units of N0, is a mean over users and rounds, silent ones too",
        training.failures(result),
    ]
    return Outcome(
        power_picture.figure(config, result), result, power_claims.claims(config, result, expected(config)), caveats
    )
