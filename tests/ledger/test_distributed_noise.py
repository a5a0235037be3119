"""Figures of sums with distributed noise: whose noise counts, against the accountant called by hand."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr
from refusals import each, refused

from fedjax_priv import simulate
from fedjax_priv.aggregators import coordinate_median, mean
from fedjax_priv.clients import sample
from fedjax_priv.layers import enrolled_masks, plain_field
from fedjax_priv.layers.noise_skellam import squared_norm_bound
from fedjax_priv.ledger import ledger
from fedjax_priv.ledger.distributed_noise import smallest_sum
from fedjax_priv.systems import compose, f2ed, fedrep, secagg, share, sparse_secagg
from fedjax_priv.theory import skellam
from helpers import targets, towards_target

N, D, DELTA, LEVELS, CLIP, VARIANCE = 6, 8, 1e-5, 2.0**10, 0.5, 0.4
DATA = targets(N, D)
NOISE = {"clip": CLIP, "noise_variance": VARIANCE, "levels": LEVELS}
LOST = np.zeros((3, N), bool)
LOST[0, :2], LOST[2, 1] = True, True


def run_of(lost=LOST, client=None):
    """Three rounds in which these uploads, by place in the cohort, were lost."""
    each = ("round", "client")
    variables = {
        "client_id": (each, np.broadcast_to(np.arange(lost.shape[1]) if client is None else client, lost.shape)),
        "counted": (each, ~lost),
        "up_bytes": (("phase", *each), ~lost[None] * 64.0),
    }
    return xr.Dataset(variables, {"phase": ["upload"]}, {"num_params": D})


def entries(algorithm, run=None, colluding=0):
    return ledger(algorithm, run_of() if run is None else run, DATA, delta=DELTA, colluding=colluding)


def masked(run=None, colluding=0, **how):
    return entries(secagg(towards_target(), **{"num_clients": N, **NOISE, **how}), run, colluding)


def by_hand(honest, lost=LOST, distance=2.0, d=D):
    """Eps of each client, by how many honest clients' noise is in the sums of the rounds it is in."""
    longest = np.sqrt(squared_norm_bound(LEVELS * CLIP, d))
    each = [skellam.rdp(distance * longest, d, count * VARIANCE * LEVELS**2) for count in honest]
    spent = [sum(rdp for rdp, away in zip(each, column, strict=True) if not away) for column in lost.T]
    return [skellam.epsilon(rdp, DELTA) for rdp in spent]


def test_a_sum_holds_the_noise_of_who_arrived_and_is_not_known():
    server, client, coalition, alone = masked(colluding=2)
    np.testing.assert_allclose(server.proved.epsilon, by_hand([4, 6, 5]))
    np.testing.assert_allclose(client.proved.epsilon, by_hand([3, 5, 4]))
    np.testing.assert_allclose(coalition.proved.epsilon, by_hand([2, 4, 3]))
    np.testing.assert_allclose(alone.proved.epsilon, by_hand([1, 1, 1]))
    for entry in (server, client, coalition, alone):
        assert entry.claimed.epsilon is None
    assert len(set(np.round(server.proved.epsilon, 6))) == 3  # clients who lost no, one and two uploads
    assert f"eps {max(by_hand([4, 6, 5], distance=1.0)):.4g} where" in server.note
    assert "4 honest clients or more" in server.proved.why


def test_too_few_uploads_open_nothing_and_cost_nothing():
    """The threshold is 4: with 2 uploads honest clients disclose nothing, and 2 colluders that were lost may."""
    few, unseen = LOST.copy(), LOST.copy()
    few[0, :4], unseen[0] = True, True
    for colluding, opened in ((1, unseen), (2, few)):
        server, client, coalition, alone = masked(run_of(few), colluding=colluding)
        np.testing.assert_allclose(server.proved.epsilon, by_hand([4, 6, 5], unseen))
        np.testing.assert_allclose(client.proved.epsilon, by_hand([3, 5, 4], unseen))
        np.testing.assert_allclose(coalition.proved.epsilon, by_hand(np.array([4, 6, 5]) - colluding, opened))
        np.testing.assert_allclose(alone.proved.epsilon, by_hand([1, 1, 1], few))
        assert "5 honest clients or more" in server.proved.why
    (enrolled,) = masked(run_of(few), secure_sum=enrolled_masks(group_size=N, threshold=4))
    np.testing.assert_allclose(enrolled.proved.epsilon, by_hand([1, 1, 1], few))  # of these masks nothing is priced
    server, *_, alone = masked(run_of(np.ones_like(few)))
    assert server.proved.epsilon.max() == alone.proved.epsilon.max() == 0 and "no sum was opened" in server.proved.why


def test_the_threshold_of_the_ledger_is_that_of_the_protocol():
    system = secagg(towards_target(), num_clients=N, dropout=0.4, elide=True, block=N, mesh=None, **NOISE)
    data = DATA._replace(count=jnp.ones_like(DATA.count))
    run = simulate(system, jax.random.key(0), jnp.zeros(D), data, rounds=12, progress=False)
    fails, came = run.status.values > 0, run.up_bytes.sel(phase="upload").values > 0
    np.testing.assert_array_equal(fails, came.sum(1) < 4)
    server, *_ = ledger(system, run, data, delta=DELTA)
    opened = ledger(system, run.isel(round=~fails).drop_vars(["round", "mechanism"]), data, delta=DELTA)[0]
    assert 0 < fails.sum() < 12
    np.testing.assert_array_equal(server.proved.epsilon, opened.proved.epsilon)


def fewest_of_all(group_size, threshold, cohort, arrived):
    """Of every way in which so many uploads can be spread over places of groups that a cohort does not fill."""
    places = -(-cohort // group_size) * group_size
    of_groups = lambda came: np.bincount([place // group_size for place in came])
    sums = [of_groups(came) for came in itertools.combinations(range(places), arrived)]
    return min(int(sum_) for each in sums for sum_ in each if sum_ >= threshold)


@pytest.mark.parametrize(("group_size", "threshold"), [(1, 1), (2, 1), (3, 2), (4, 1), (5, 3), (8, 2)])
def test_the_smallest_sum_is_that_of_the_worst_places(group_size, threshold):
    for cohort in range(2, 8):
        for arrived in range(min(cohort, max(threshold, cohort - 2)), cohort + 1):
            if arrived >= threshold:
                found = smallest_sum(group_size, threshold, cohort, np.array([arrived]))
                assert found.tolist() == [fewest_of_all(group_size, threshold, cohort, arrived)]


def test_enough_colluding_clients_open_every_upload():
    found = masked(colluding=4)
    np.testing.assert_allclose(found[2].proved.epsilon, by_hand([1, 1, 1]))
    few = masked(neighbours=4, threshold=2, colluding=1)
    assert "connected" in few[0].proved.why
    np.testing.assert_allclose(few[2].proved.epsilon, by_hand([3, 5, 4]))


def test_uploads_that_are_seen_alone_hold_one_client_s_noise():
    """Those in the clear, and those of SparseSecAgg: its components may be single clients."""
    clear = secagg(towards_target(), num_clients=N, secure_sum=plain_field(), **NOISE)
    sparse = sparse_secagg(towards_target(), num_clients=N, alpha=0.5, **NOISE)
    for algorithm in (clear, sparse):
        (entry,) = entries(algorithm, colluding=3)
        np.testing.assert_allclose(entry.proved.epsilon, by_hand([1, 1, 1]))
        assert entry.claimed.epsilon is None


def buffered(**how):
    usual = dict(num_clients=N, num_params=D, k=N, buffer_size=3, aggregate=mean(), **NOISE)
    return fedrep(towards_target(), **{**usual, **how})


def test_a_cohort_that_others_draw_holds_the_noise_of_its_clients():
    """A sum has room for all 6 clients, 4 come, and 2 of them are lost in the first round."""
    system = compose(
        towards_target(), num_clients=N, cohort=sample(4), private="field", secure="secagg", threshold=2, **NOISE
    )
    lost = LOST[:, :4]
    server, client, *_ = entries(system, run_of(lost))
    np.testing.assert_allclose(server.proved.epsilon[:4], by_hand([2, 4, 3], lost))
    np.testing.assert_allclose(client.proved.epsilon[:4], by_hand([1, 3, 2], lost))


@pytest.mark.parametrize(
    "who",
    [
        {"cohort": sample(4, num_byzantine=2)},
        {"cohort": sample(4, num_byzantine=np.isin(np.arange(N), [3, 5]))},
        {"cohort": sample(4), "num_byzantine": 2},
    ],
    ids=lambda who: "",
)
def test_byzantine_clients_of_a_cohort_may_leave_their_noise_out(who):
    """Both may be among the 4 of a round, of whom 2, 4 and 3 arrive."""
    system = compose(towards_target(), num_clients=N, private="field", secure="secagg", threshold=2, **NOISE, **who)
    server, *_ = entries(system, run_of(LOST[:, :4]))
    np.testing.assert_allclose(server.proved.epsilon[:4], by_hand([1, 2, 1], LOST[:, :4]))


@pytest.mark.parametrize("neighbours", [None, 2])
def test_a_graph_of_few_neighbours_is_a_condition(neighbours):
    how = {} if neighbours is None else {"neighbours": neighbours, "threshold": 2}
    systems = {
        "fedrep": buffered(alpha=1.0, num_byzantine=0, **how),
        "secagg": secagg(towards_target(), num_clients=N, **NOISE, **how),
        "compose": compose(towards_target(), num_clients=N, private="field", secure="secagg", **NOISE, **how),
    }
    for name, system in systems.items():
        (server,) = (entry for entry in entries(system) if entry.view == "server")
        assert ("connected in the graph of neighbours" in server.proved.why) == (neighbours is not None), name


def test_a_buffer_holds_the_noise_of_its_clients():
    """At least 2 of 3 are there where a sum is opened; Byzantine clients may add none."""
    proposal, server, *_ = entries(buffered(alpha=1.0))
    assert "Theorem 2" in proposal.proved.why
    np.testing.assert_allclose(server.proved.epsilon, by_hand([2, 3, 2], d=6))
    spoilt = buffered(alpha=1.0, num_byzantine=1, buffer_size=2, aggregate=coordinate_median())
    np.testing.assert_allclose(entries(spoilt)[1].proved.epsilon, by_hand([1, 1, 1], d=6))
    (_, alone) = entries(buffered(alpha=1.0, in_the_clear=True, buffer_size=1))
    np.testing.assert_allclose(alone.proved.epsilon, by_hand([1, 1, 1], d=6))


def test_noise_in_buffers_is_no_guarantee_where_proposals_depend_on_data():
    for entry in entries(buffered(alpha=0.5))[1:]:
        assert entry.proved.epsilon is None and "unless alpha = 1; eps of the values alone is" in entry.proved.why


def test_only_rounds_of_the_cohort_count():
    chosen = np.array([[0, 1, 2], [0, 1, 2], [0, 4, 5]])
    found = masked(run_of(np.zeros((3, 3), bool), chosen), cohort_size=3)[0].proved.epsilon
    one, two, three = (by_hand([3] * rounds, np.zeros((rounds, 1), bool))[0] for rounds in (1, 2, 3))
    np.testing.assert_allclose(found, [three, two, two, 0, one, one])


def test_without_noise_there_is_no_number():
    without = entries(secagg(towards_target(), num_clients=N, clip=CLIP))
    for (entry,) in (without, masked(noise_variance=0.0)):
        assert entry.proved.epsilon is None and "no noise" in entry.proved.why


def buffers_of_three():
    return {
        "share": share(towards_target(), num_clients=N, buffer_size=3, aggregate=mean()),
        "f2ed": f2ed(towards_target(), num_clients=N, buffer_size=3),
        "compose": compose(towards_target(), num_clients=N, secure="secagg", buffer_size=3),
    }


@pytest.mark.parametrize("name", ["share", "f2ed", "compose"])
def test_without_noise_the_smallest_of_a_rounds_sums_is_named(name):
    """Every way of losing two of six clients in two buffers of three that are opened with two uploads or more."""
    opened = [
        3 - len({*gone} & {*buffer})
        for gone in itertools.combinations(range(N), 2) for buffer in itertools.combinations(range(N), 3)
        if len({*gone} & {*buffer}) <= 1
    ]  # fmt: skip
    system = buffers_of_three()[name]
    for colluding in range(3):
        (entry,) = entries(system, colluding=colluding)
        assert entry.proved.epsilon is None
        hidden = f"sums over buffers of 3 clients, {min(opened) - colluding} or more neither lost nor colluding"
        assert entry.note.startswith(hidden if min(opened) - colluding > 1 else "single uploads can be read")
    (whole,) = entries(system, run_of(np.zeros((3, N), bool)))
    assert "3 or more" in whole.note
    (one,) = entries(secagg(towards_target(), num_clients=N))
    assert one.note.startswith(f"sums over rounds of {N} clients, {N - 2} or more")


def test_a_run_as_it_is_made_has_what_a_ledger_reads():
    algorithm = secagg(towards_target(), num_clients=N, dropout=0.2, elide=True, block=N, mesh=None, **NOISE)
    run = simulate(algorithm, jax.random.key(3), jnp.zeros(D), DATA, rounds=3, progress=False)
    found = entries(algorithm, run)[0]
    arrived = run.up_bytes.sel(phase="upload").values > 0
    assert not arrived.all()
    np.testing.assert_allclose(found.proved.epsilon, by_hand(np.maximum(arrived.sum(1), 4), ~arrived))


test_bad_arguments = refused(*each(colluding=[-1, N]), by=lambda bad: masked(**bad), pattern="{} must be")
