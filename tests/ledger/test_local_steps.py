"""Only steps of a form that a theorem names have its figure: the exact law of a case in which row 4 would be false."""

import functools
import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

from fedjax_priv import systems
from fedjax_priv.aggregators import mean
from fedjax_priv.audit.by_release import Subject
from fedjax_priv.audit.looks import _kind_of
from fedjax_priv.base import ClientData, Local, Stated
from fedjax_priv.channels import constant
from fedjax_priv.clients import bounded, fedsgd, local_sgd, once_per_model, scheduled
from fedjax_priv.layers import plain_field
from fedjax_priv.ledger import ledger, worst
from fedjax_priv.ledger.by_release import ACCOUNTANTS
from fedjax_priv.ledger.local_noise import COVERED, FINE
from fedjax_priv.testing import cohort_of
from fedjax_priv.theory import cdp_fl, gaussian, sampled_gaussian, wireless
from fedjax_priv.theory.sampled_gaussian import Round

N, TAU, M, DELTA, MU, PULL, SIGMA, CLIP = 100, 10, 4, 1e-5, 0.9, 1.9, 0.8, 1.0
ROOMY = functools.partial(systems.cdp_fl, levels=2.0**16)


def loss(params, examples):
    return (params[None] * examples).sum(-1)


def noisy(**how):
    usual = dict(learning_rate=1.0, batch_size=M, num_steps=TAU, sample_clip=CLIP, gradient_noise=SIGMA)
    return local_sgd(loss, **usual | how)


def run_of(client=None, rounds=1, p=1.0, lost=(), failed=False):
    """What a ledger reads: everybody in each round, some uploads lost in the first."""
    client = np.broadcast_to(np.arange(N) if client is None else client, (rounds, N if client is None else len(client)))
    arrived = np.ones(client.shape, bool)
    arrived[0, list(lost)] = False
    each = ("round", "client")
    variables = {
        "client_id": (each, client), "counted": (each, arrived & (not failed)), "gain": (each, np.ones(client.shape)),
        "status": (("round",), np.full(rounds, int(failed))), "up_bytes": (("phase", *each), 8.0 * arrived[None]),
        "join_probability": (each, np.broadcast_to(np.float32(p), client.shape)),
    }  # fmt: skip
    return xr.Dataset(variables, {"phase": ["upload"]}, {"num_params": 1})


def entries(algorithm, run=None, count=M, **how):
    data = ClientData(jnp.zeros((N, M, 1)), np.broadcast_to(count, N))
    return ledger(algorithm, run_of() if run is None else run, data, delta=DELTA, **how)


def by_view(local, run=None, count=M, system=ROOMY, **how):
    found = entries(system(local, num_clients=N), run, count, **{"lipschitz": 1.0, **how})
    return {entry.view: entry for entry in found}


def response(pull, momentum):
    """How far noises of unit size in steps 1, ..., tau move the model by the last step: v <- mu v + pull w + b."""
    move = np.zeros(TAU)
    for first in range(TAU):
        w = v = 0.0
        for step in range(first, TAU):
            v = momentum * v + pull * w + (step == first)
            w -= v
        move[first] = -w
    return move


def exact_epsilon(momentum, noises):
    """Of the sum of `noises` devices, a Gaussian mechanism: the first one's gradient is +-G on one sample and 0 on the
    others, all others pull theirs back to the shared model by (theta - theta^t) PULL / eta.
    """
    own, others = response(0.0, momentum), response(PULL, momentum)
    shift = 2 * CLIP / M * own.sum()
    return gaussian.epsilon(DELTA, shift / SIGMA / np.sqrt((own**2).sum() + (noises - 1) * (others**2).sum()))


def row_four(noises):
    """Eps of whole passes of one batch by row 4, for steps that contract: rho / rho_1 = k^2 / (k - 1 + h)."""
    training = cdp_fl.Training(1, TAU, CLIP, noises, M, M, SIGMA)
    return cdp_fl.proved_epsilon(cdp_fl.proved_rho(training, lipschitz=1.0), DELTA).epsilon


def test_no_figure_of_steps_with_momentum_is_below_the_exact_one():
    """PULL = 1.9 has a constant of 1 without momentum; with it, the sum holds less noise than row 4 counts."""
    ratio = response(0.0, MU).sum() ** 2 / ((response(0.0, MU) ** 2).sum() + 99 * (response(PULL, MU) ** 2).sum())
    assert ratio / (TAU**2 / (TAU - 1 + N)) == pytest.approx(3.45, abs=0.01)
    assert row_four(N) < exact_epsilon(MU, N) - 0.1  # the figure that must not be given
    assert row_four(N) >= exact_epsilon(0.0, N)
    found = by_view(noisy(momentum=MU), colluding=2)
    for view, known in (("server", 0), ("device", 1), ("coalition", 2), ("everybody", N - 1)):
        assert worst(found[view].proved) >= exact_epsilon(MU, N - known)
        assert "row 0, 3" not in found[view].proved.why and "row 0, 4" not in found[view].proved.why
    assert found["server"].claimed.epsilon is None and "momentum" in found["server"].claimed.why
    plain = by_view(noisy())["server"]
    assert worst(plain.proved) == pytest.approx(row_four(N)) and worst(plain.claimed) > 0


def test_momentum_from_zero_has_row_two_and_no_less():
    """tau - 1 + 1/h: every noisy gradient but the last is seen, and the last noise is one of h of one size."""
    mu = np.sqrt((TAU - 1 + 1 / N) * (2 * CLIP / M / SIGMA) ** 2)
    found = by_view(noisy(momentum=MU))["server"].proved
    np.testing.assert_allclose(found.epsilon, gaussian.epsilon(DELTA, mu), rtol=1e-6)


REMEMBERING = {
    "carried": dict(momentum=MU, carry_momentum=True),
    "schedule": dict(learning_rate=lambda rounds: 1 / (1 + rounds)),
}


@pytest.mark.parametrize("how", REMEMBERING.values(), ids=REMEMBERING.keys())
def test_noise_of_several_sizes_in_a_sum_is_no_guarantee(how):
    """A client that comes for the first time takes larger steps, or has no velocity yet: the others' noise is small."""
    found = by_view(noisy(**how))
    for view in ("server", "device"):
        assert found[view].proved.epsilon is None and "row 2 is for" in found[view].proved.why
    assert worst(found["everybody"].proved) == worst(by_view(noisy())["everybody"].proved) > 0


def rounded(mean, deviation, far=40):
    """Masses of `N(mean, deviation^2)` rounded up or down at random, at -far, ..., far."""
    x = np.linspace(-9.0, 9.0, 40001)
    weight, place = np.exp(-(x**2) / 2), mean + deviation * x
    low, masses = np.floor(place).astype(int), np.zeros(2 * far + 1)
    np.add.at(masses, low + far, weight * (1 - (place - low)))
    np.add.at(masses, low + far + 1, weight * (place - low))
    return masses / weight.sum()


def beyond(eps, p, q):
    return np.maximum(p - np.exp(eps) * q, 0).sum()


def test_noise_that_a_grid_rounds_away_does_not_add_up():
    """One number, ten clients, nine of which are between two grid points: the exact sum leaks more than row 2 says."""
    shift, points, h = 0.2, 0.1, 10
    others = functools.reduce(np.convolve, [rounded(0.5, points)] * (h - 1))
    p, q = (np.convolve(others, rounded(0.25 + sign * shift, points)) for sign in (1, -1))
    eps = gaussian.epsilon(DELTA, 2 * shift / points / np.sqrt(h))  # of row 2
    assert max(beyond(1.9 * eps, p, q), beyond(1.9 * eps, q, p)) > DELTA
    system = lambda points: functools.partial(systems.cdp_fl, levels=points / SIGMA)
    fine, coarse = (by_view(noisy(num_steps=1), system=system(s), colluding=2) for s in (1.01 * FINE, 0.99 * FINE))
    for view in ("server", "device", "coalition"):
        assert coarse[view].proved.epsilon is None and "give more levels" in coarse[view].proved.why
        assert not coarse[view].gaussian and worst(fine[view].proved) < worst(fine["everybody"].proved)
    assert worst(coarse["everybody"].proved) == worst(fine["everybody"].proved)
    composed = systems.compose(noisy(num_steps=1), num_clients=N, secure="enrolled", levels=1.0)
    assert entries(composed)[0].proved.epsilon is None
    half = by_view(noisy(num_steps=1, learning_rate=0.5), system=system(1.01 * FINE))
    assert half["server"].proved.epsilon is None, "a step half as long has half the noise"


@pytest.mark.parametrize("h", [2, 3])
@pytest.mark.parametrize("points", [0.5, 0.8, 1.1])
def test_a_sum_of_rounded_numbers_is_a_rounded_sum_but_for_aliases(points, h):
    """The bound that `FINE` is from; between 0 and 1 the hat function is that of one number, h of them a B-spline."""
    means, far = np.array([0.3, -0.45, 0.1])[:h], 40
    summed = functools.reduce(np.convolve, [rounded(mean, points, far) for mean in means])
    spline = functools.reduce(np.convolve, [np.maximum(1 - np.abs(np.arange(-2000, 2001) / 1000), 0) / 1000] * h)
    x = np.arange(-h * 12000, h * 12000 + 1) / 1000
    density = np.exp(-((x - means.sum()) ** 2) / (2 * h * points**2)) / np.sqrt(2 * np.pi * h) / points
    at = np.convolve(density, spline, "same")[::1000]  # a random rounding of the real sum
    middle, size = len(summed) // 2, len(at) // 2
    apart = np.abs(summed[middle - size : middle + size + 1] - at).max()
    aliases = np.exp(-2 * np.pi**2 * points**2 * (1 - 1 / h))
    assert 1e-3 * aliases < apart < 2 * h * aliases
    assert 2 * N * np.exp(-2 * np.pi**2 * FINE**2 / 2) < 2.0**-100


def test_noise_of_updates_that_are_clipped_does_not_add_up():
    """A client whose update is beyond the ball sends one of norm 1, without its noise if that is along it."""
    local = bounded(noisy(num_steps=1), clip=0.01)
    params, data, two = jnp.zeros(1), ClientData(jnp.ones((2, M, 1)), jnp.array([M, M])), cohort_of(2)
    update = jax.jit(lambda key: local.apply(key, (), params, data, two)[0])
    sent = [update(jax.random.key(seed)) for seed in range(20)]
    assert np.unique(np.abs(np.stack(sent)).round(6)).tolist() == [1.0]
    found, whole = by_view(local), by_view(noisy(num_steps=1))
    for view in ("server", "device"):
        assert found[view].proved.epsilon is None and "these are forgetting" in found[view].proved.why
    assert worst(found["everybody"].proved) == worst(whole["everybody"].proved)


def test_clipping_makes_no_client_forget():
    """What clients keep from round to round stays in what they send."""
    carried = local_sgd(lambda params, x: x @ params, learning_rate=0.1, batch_size=2, num_steps=1, momentum=0.5,
                        carry_momentum=True)  # fmt: skip
    assert carried.steps.form == bounded(carried, clip=1.0).steps.form == "remembering"
    assert bounded(once_per_model(noisy()), clip=1.0).steps.form == "remembering"


def wrapped(local):
    @functools.wraps(local.apply)
    def apply(*args):
        update, memory, loss = local.apply(*args)
        return 2 * update, memory, loss

    return local._replace(apply=apply)


def stating(local, **other):
    return local._replace(apply=Stated(local.apply.function, local.steps._replace(**other)))


FOREIGN = {
    "wrapped": wrapped,
    "compiled": lambda local: local._replace(apply=jax.jit(local.apply)),
    "own": lambda local: Local(lambda n, params: (), lambda *args: local.apply(*args)),
    "unknown form": lambda local: stating(local, form="luck"),
    "unknown form, once per model": lambda local: once_per_model(stating(local, form="luck")),
    "unknown form, clipped": lambda local: bounded(stating(local, form="luck"), clip=1.0),
    "DP-SGD of several steps": lambda local: stating(local, num_devices=N),
}


@pytest.mark.parametrize("change", FOREIGN.values(), ids=FOREIGN.keys())
def test_what_is_not_stated_has_no_figure(change):
    local = change(noisy())
    for system in (systems.cdp_fl, systems.robust_fedavg):
        for entry in by_view(local, system=system).values():
            assert entry.claimed.epsilon is None is entry.proved.epsilon
    assert local.steps is None or local.steps.form == "luck" or local.steps.num_devices == N
    assert not any("luck" in theorem for theorem in COVERED.values())


def test_each_argument_of_local_training_is_known_to_the_form():
    """An option that is added must be stated: by the form, or as a number that the theorems read."""
    assert {*inspect.signature(local_sgd).parameters} == {
        "loss", "batch_size", "num_epochs", "num_steps", "sample_clip", "gradient_noise",  # numbers, or any
        "learning_rate", "momentum", "carry_momentum", "proximal",  # the form
    }  # fmt: skip
    form = lambda **how: noisy(**how).steps.form
    assert form() == form(momentum=0) == form(momentum=0.0, carry_momentum=True) == fedsgd(loss).steps.form == "plain"
    assert form(momentum=jnp.float32(0)) == form(proximal=0.0) == "plain", "a zero of any type"
    assert form(momentum=0.1) == "momentum from zero"
    assert {form(**how) for how in REMEMBERING.values()} == {"remembering"}
    assert form(learning_rate=lambda rounds: 1.0) == form(proximal=0.1) == "remembering"
    rate = lambda **how: noisy(**how).steps.learning_rate
    assert rate() == rate(momentum=0.1) is not None, "theorems about these two forms read it"
    assert rate(proximal=0.1) is rate(momentum=0.1, carry_momentum=True) is rate(learning_rate=lambda _: 1.0) is None
    assert fedsgd(loss).steps.clip is None


BUFFERS = dict(num_params=1, k=N, buffer_size=2, aggregate=mean())
IN_THE_CLEAR = {
    "fedavg": (systems.fedavg, {}), "robust": (systems.robust_fedavg, dict(num_clients=N, num_byzantine=3)),
    "rcgd": (systems.rcgd_ef, dict(num_clients=N, num_params=1)),
    "share": (systems.share, dict(num_clients=N, aggregate=mean(), in_the_clear=True)),
    "secagg": (systems.secagg, dict(num_clients=N, secure_sum=plain_field())),
}  # fmt: skip
HIDDEN = {
    "secagg": (systems.secagg, dict(num_clients=N)), "sparse": (systems.sparse_secagg, dict(num_clients=N)),
    "fedrep": (systems.fedrep, dict(num_clients=N, **BUFFERS)), "wireless": (systems.wireless, {}),
    "skellam": (systems.secagg, dict(num_clients=N, clip=1.0, noise_variance=1.0, levels=2.0**10)),
}  # fmt: skip


@pytest.mark.parametrize(("system", "how"), [*IN_THE_CLEAR.values(), *HIDDEN.values()])
def test_noisy_steps_protect_a_sample_in_every_system(system, how):
    """Uploads in the clear, and whatever else is made of noisy gradients, are seen by everybody: row 1."""
    reference = by_view(noisy())["everybody"].proved
    *others, entry = entries(system(noisy(momentum=MU, carry_momentum=True), **how))
    assert entry.view == "everybody" and entry.adjacent.startswith("one sample of a client is replaced")
    np.testing.assert_array_equal(entry.proved.epsilon, reference.epsilon)
    exact = gaussian.epsilon(DELTA, np.sqrt(TAU) * 2 * CLIP / M / SIGMA)
    np.testing.assert_allclose(entry.proved.epsilon, exact, rtol=1e-6)
    assert bool(others) == ((system, how) in HIDDEN.values())
    without = entries(system(noisy(gradient_noise=0.0), **how))
    assert len(without) == max(len(others), 1) and all(each.view != "everybody" or others for each in without)


def test_noise_that_no_theorem_covers_says_why():
    (entry,) = entries(systems.robust_fedavg(noisy(sample_clip=None), num_clients=N))
    assert entry.proved.epsilon is None and "not clipped" in entry.proved.why


UNEVEN = np.resize([4, 3, 2, 1], N)


@pytest.mark.parametrize("how", [dict(num_steps=3), dict(num_steps=1), dict(num_epochs=2, num_steps=None)], ids=str)
@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_clients_need_no_whole_batches(how, size):
    """Row 1 charges the farthest that a replaced sample moves an update in 64 draws, with gradients G and -G."""
    local = noisy(batch_size=size, gradient_noise=0.0, learning_rate=1.0, **how)
    one, other = (jnp.full((N, M, 1), -CLIP).at[:, 0].set(first) for first in (CLIP, -CLIP))
    data = ClientData(one, jnp.asarray(UNEVEN, jnp.int32))
    train = jax.jit(jax.vmap(lambda key, data: local.apply(key, (), jnp.zeros(1), data, cohort_of(N))[0], (0, None)))
    keys = jax.random.split(jax.random.key(0), 64)
    moved = np.abs(train(keys, data) - train(keys, data._replace(examples=other))).max(0)[:, 0]
    proved = by_view(noisy(batch_size=size, **how), count=UNEVEN, lipschitz=None)["everybody"].proved
    uses = np.round(moved * size / (2 * CLIP))
    np.testing.assert_allclose(
        proved.epsilon, gaussian.epsilon(DELTA, np.sqrt(uses) * 2 * CLIP / size / SIGMA), rtol=1e-6
    )


def test_a_fresh_batch_holds_a_sample_by_chance_or_all_of_them():
    found = by_view(noisy(num_steps=1, batch_size=3), count=UNEVEN, system=systems.dp_sgd)["everybody"].proved
    chance = [
        sampled_gaussian.epsilon(DELTA, [(Round(SIGMA * 3 / CLIP, rate, "fixed size"), 1)], "replacement")
        for rate in (0.75, 1.0, 1.0, 1.0)
    ]
    np.testing.assert_allclose(found.epsilon[:4], chance, rtol=1e-4)


@pytest.mark.parametrize("system", [systems.cdp_fl, systems.dp_sgd])
def test_one_client_whose_batch_is_no_whole_pass_leaves_no_gaussian_mechanism(system):
    of = lambda size: by_view(noisy(num_steps=1, batch_size=size), count=UNEVEN, system=system)
    for view in ("server", "everybody"):
        assert of(4)[view].gaussian and not of(3)[view].gaussian


def test_a_client_without_samples_adds_no_noise():
    empty = np.where(np.arange(N) == 7, 0, M)
    for entry in by_view(noisy(), count=empty).values():
        assert entry.proved.epsilon is None and "no samples" in entry.proved.why


def test_every_noise_that_is_lost_is_missed():
    """Of three users that the server did not hear, the noise is not in the sum; of those that it knows neither."""
    for view, known in (("server", 0), ("device", 1), ("coalition", 2)):
        lost = by_view(noisy(), run_of(lost=(4, 5, 6)), colluding=2)[view].proved
        assert worst(lost) == pytest.approx(row_four(N - 3 - known), rel=1e-9)
        assert row_four(N - 3 - known) > 1.001 * row_four(N - known)
    three = [by_view(noisy(), run_of(rounds=3, lost=lost))["server"].proved for lost in ((), (4, 5, 6))]
    assert worst(three[1]) > 1.001 * worst(three[0]), "the round that lost most counts for all"
    everybody = [by_view(noisy(), run)["everybody"].proved for run in (run_of(lost=(4, 5, 6)), run_of())]
    assert worst(everybody[0]) == worst(everybody[1])
    amplified = [
        by_view(noisy(num_steps=1, batch_size=1), run_of(lost=lost), system=systems.dp_sgd)["server"].proved
        for lost in ((), (4, 5, 6))
    ]
    training = cdp_fl.Training(1, 1, CLIP, N - 3, M, 1, SIGMA)
    assert worst(amplified[1]) == pytest.approx(cdp_fl.amplified_epsilon(training, DELTA))
    assert worst(amplified[1]) > worst(amplified[0])


FIGURES = {
    "cdp_fl": (ROOMY, {}, noisy()), "dp_sgd": (systems.dp_sgd, {}, noisy(num_steps=1)),
    "skellam": (systems.secagg, dict(clip=1.0, noise_variance=1.0, levels=2.0**10), noisy(gradient_noise=0.0)),
    "robust": (systems.robust_fedavg, {}, noisy()),
}  # fmt: skip


@pytest.mark.parametrize(("system", "how", "local"), FIGURES.values(), ids=FIGURES.keys())
def test_a_failed_round_is_charged_like_any_other(system, how, local):
    """What was sent was seen, whether the server used it or not."""
    find = lambda **run: entries(system(local, num_clients=N, **how), run_of(**run))
    for whole, failed, one in zip(find(rounds=3), find(rounds=3, failed=True), find(rounds=1), strict=True):
        np.testing.assert_array_equal(whole.proved.epsilon, failed.proved.epsilon)
        assert worst(failed.proved) > worst(one.proved) > 0


@pytest.mark.parametrize(
    "release", [kind for kind in ACCOUNTANTS if kind.__name__ in ("LocalNoise", "NoneType", "Sum")]
)
def test_a_client_that_is_drawn_twice_has_no_figure(release):
    system = {"LocalNoise": systems.cdp_fl, "Sum": systems.secagg}.get(release.__name__, systems.robust_fedavg)
    (entry,) = entries(system(noisy(), num_clients=N), run_of(client=[3, 1, 3]))
    assert entry.proved.epsilon is None and "twice" in entry.proved.why


def test_rounds_are_counted_by_client():
    draw = scheduled(np.array([[0, 1], [0, 2]]))
    algorithm = systems.cdp_fl(noisy(), num_clients=N, cohort_size=2, cohort=draw)
    run = xr.concat([run_of([0, 1]), run_of([0, 2])], "round")
    server = entries(algorithm, run)[0].proved.epsilon
    assert server[0] > server[1] == server[2] > 0 == server[3:].max()


def air(local, p=0.6, **how):
    usual = dict(clip=0.1, noise_variance=0.5, receiver_noise=1.0, participation=0.6, fading=constant())
    return entries(systems.wireless(local, **{**usual, **how}), run_of(np.arange(10), rounds=3, p=p))[0].proved


def test_what_a_client_remembers_may_show_the_coins_of_earlier_rounds():
    """A client that keeps something of the rounds it took part in: the figure in which coins are known."""
    about = wireless.Round(10, 0.6, 0.1, 0.5, 1.0)
    secret, known = (f(about, DELTA, rounds=3) for f in (wireless.rigorous_epsilon, wireless.known_set_epsilon))
    assert known > 1.1 * secret
    for local in (noisy(gradient_noise=0.0), fedsgd(loss), noisy(gradient_noise=0.0, momentum=MU)):
        assert worst(air(local)) == pytest.approx(secret, rel=1e-5)
    for local in (*(noisy(gradient_noise=0.0, **how) for how in REMEMBERING.values()), wrapped(fedsgd(loss))):
        assert worst(air(local)) == pytest.approx(known, rel=1e-5) and "remember" in air(local).why


def test_noisy_steps_are_audited_by_samples():
    """A canary that replaces the update would go round the noise."""
    (entry,) = entries(systems.robust_fedavg(noisy(), num_clients=N))
    about = Subject(*[None] * 5, release=None)
    assert _kind_of(about, entry, None, 1) == "label"
    with pytest.raises(ValueError, match="canary must be 'sample' or 'label'"):
        _kind_of(about, entry, "direction", 1)
