"""Digital uploads in whole rounds: outages, uses of the channel, seconds and joules."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from refusals import refused

from fedjax_priv.analysis import OnAir, air_resources, run_seconds
from fedjax_priv.channels import outage, rayleigh, recorded
from fedjax_priv.clients import bernoulli, round_robin
from fedjax_priv.runs.simulation import simulate
from fedjax_priv.systems import digital_fedavg, fedavg, over_the_air_vote
from fedjax_priv.testing import cohort_of
from fedjax_priv.theory import digital_links
from helpers import targets, towards_target

KEY, D = jax.random.key(4), 9
SNR = 10.0  # 10 dB


def ran(rounds=4, n=6, **how):
    system = digital_fedavg(towards_target(), num_params=D, mesh=None, **how)
    return simulate(system, KEY, jnp.zeros(D), targets(n, D), rounds=rounds, progress=False)


def test_an_outage_loses_the_upload_and_takes_its_uses():
    """Of Rayleigh gains at the best fixed rate, 37.7% are lost, and everybody has used bits / r_0."""
    best = float(digital_links.best_fixed_rate(SNR))
    run = ran(rounds=40, n=100, fixed_rate=best)
    arrived = (run.counted == 1).values
    lost = float(digital_links.outage(best, SNR))
    assert abs(1 - arrived.mean() - lost) < 3 * np.sqrt(lost * (1 - lost) / arrived.size)
    np.testing.assert_array_equal(arrived, digital_links.rate(SNR, run.gain.values) >= np.float32(best))
    np.testing.assert_allclose(run.channel_uses, (32 + 2 * D) / best, rtol=1e-5)
    np.testing.assert_array_equal(run.up_bytes.sel(phase="upload").values > 0, arrived)


def test_seconds_are_the_sum_of_turns_or_the_slowest_band():
    """TDMA: the sum of bits / (2 W rate). OFDMA: the largest, each in W / r. The upload is not also a message."""
    gain = np.array([[0.5, 1.0, 2.0, 0.1]])
    run = ran(rounds=1, n=4, truncation=0.2, cohort=bernoulli(1.0, fading=recorded(gain)))
    bits, rate = 32 + 2 * D, np.log2(1 + SNR * gain[0, :3] ** 2) / 2
    turns, bands = bits / rate / (2 * 50.0), bits / rate / (2 * 50.0 / 3)
    down = 32 * D / 1e3
    how = {"compute_seconds": 1.0, "bandwidth": 1e3}
    for access, expected in (("orthogonal", turns.sum()), ("bands", bands.max())):
        seconds = run_seconds(run, **how, air=OnAir(50.0, access))
        np.testing.assert_allclose(seconds, [1.0 + down + expected], rtol=1e-6)
    spent = air_resources(run, OnAir(50.0, "orthogonal"), receiver_noise=1.0, path_loss_db=20.0)
    np.testing.assert_allclose(spent.air_seconds, [turns.sum()], rtol=1e-6)
    np.testing.assert_allclose(spent.channel_uses[0], [*(bits / rate), 0], rtol=1e-6)
    np.testing.assert_allclose(spent.joules[0], spent.channel_uses[0] * SNR * 10**-20.4 / 2 * 100, rtol=1e-5)
    with pytest.raises(ValueError, match="^air must be given for uploads over the air"):
        run_seconds(run, **how)


def test_who_is_just_strong_enough_sends():
    fading, data = recorded(np.array([[0.5, 0.25, 0.1, 1.0]])), targets(4, D)

    @jax.jit
    def counted(least):
        cohort = bernoulli(1.0, fading=fading)
        one = digital_fedavg(towards_target(), num_params=D, mesh=None, truncation=least, cohort=cohort)
        return one.step(KEY, one.init(KEY, jnp.zeros(D), data), data)[1].counted

    np.testing.assert_array_equal(counted(0.25), [True, False, False, True])
    assert counted(0.0).all()


def test_a_run_in_the_clear_takes_nothing_from_the_air():
    run = simulate(fedavg(towards_target(), mesh=None), KEY, jnp.zeros(D), targets(3, D), rounds=1, progress=False)
    with pytest.raises(ValueError, match="^run must be one over the air"):
        air_resources(run, OnAir(1.0))


def test_votes_take_d_uses_together():
    """Superposed: 4.5 ms at 1 kHz for nine votes of any number of users, here six."""
    system = over_the_air_vote(towards_target(), truncation=0.0, mesh=None)
    run = simulate(system, KEY, jnp.zeros(D), targets(6, D), rounds=2, progress=False)
    spent = air_resources(run, OnAir(1e3))
    np.testing.assert_allclose(spent.air_seconds, 9 / 2e3)
    np.testing.assert_allclose(spent.channel_uses.sum("client"), 9 * 6)


def test_few_coordinates_and_a_scheduler():
    """Two of six send, four coordinates each: 32 + 8 bits; the mean over seeds is the update."""
    run = ran(rounds=3, k=4, cohort=round_robin(2, rayleigh()))
    assert run.sizes["client"] == 2 and run.client_id.values.tolist() == [[0, 1], [2, 3], [4, 5]]
    assert (8 * run.up_bytes.sel(phase="upload") == 40).all()


test_bad_arguments = refused(
    ({"levels": 0}, "levels"),
    ({"fixed_rate": 0.0}, "fixed_rate"),
    ({"truncation": -0.1}, "truncation"),
    ({"k": 10}, "k must"),
    ({"snr_db": np.inf}, "snr_db"),
    ({"snr_db": 500.0}, r"snr_db must be a number of dB in \[-300, 300\], got 500.0"),
    ({"snr_db": 1e4}, r"snr_db must be a number of dB in \[-300, 300\], got 10000.0"),
    by=lambda how: digital_fedavg(towards_target(), num_params=D, **how),
)


@pytest.mark.parametrize("rate", [1e-7, 1e-3, 0.5, 20.0])
def test_a_traced_rate_asks_for_the_gain_that_a_number_does(rate):
    """2^(2 r) - 1 of a small r is lost in float32."""
    least = np.sqrt(np.expm1(2 * np.log(2) * rate))
    who = cohort_of(2)._replace(gain=jnp.float32(least) * jnp.array([0.9999, 1.0001], jnp.float32))
    arrives = lambda rate: outage(rate).transmit(jax.random.key(0), (), who)[1]
    assert arrives(rate).tolist() == jax.jit(arrives)(rate).tolist() == [False, True]
