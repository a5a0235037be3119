"""Whatever a server tells its clients: with a check of lists and a high threshold no two lists are opened."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_priv.base import Lists
from fedjax_priv.layers.secure_sum import opening, sharing
from helpers import cohort_of, same_bits, survivors

N, THRESHOLD, COLLUDING = 9, 6, 2
QUORUMS = [sharing.quorum_of(N, "all", THRESHOLD, checks) for checks in (False, True)]
PRIVATE, ROSTER, _ = jax.jit(functools.partial(sharing.open_round, QUORUMS[0]))(jax.random.key(0), cohort_of(N))
HELPS = jnp.arange(N) >= N - COLLUDING


@functools.partial(jax.jit, static_argnames="quorum")
def close(quorum, alive, online, told, helps=HELPS):
    return opening.disclose(quorum, PRIVATE, ROSTER, (), alive, online, Lists(told, helps))[0]


def without(told, *pairs):
    for row, column in pairs:
        told[row, column] = False
    return told


def two(rng, cut):
    """One list to some clients, another one to the others."""
    first, second = rng.random((2, N)) < 0.85
    return np.where(np.arange(N)[:, None] < cut, first, second)


STRATEGIES = {
    "the truth": lambda rng: np.ones((N, N), bool),
    "one false list": lambda rng: np.broadcast_to(np.arange(N) != 3, (N, N)),
    "random lists": lambda rng: rng.random((N, N)) < 0.8,
    "nearly full lists": lambda rng: rng.random((N, N)) < 0.97,
    "one client apart": lambda rng: without(np.ones((N, N), bool), (rng.integers(N), rng.integers(N))),
    "two lists, half and half": lambda rng: two(rng, N // 2),
    "two lists, one for few": lambda rng: two(rng, 2),
    "two lists, one for most": lambda rng: two(rng, N - COLLUDING - 1),
    "each its own loss": lambda rng: ~np.roll(np.eye(N, dtype=bool), 1, 1),
    "without oneself": lambda rng: ~np.eye(N, dtype=bool),
    "too short lists": lambda rng: np.arange(N)[None] < rng.integers(0, THRESHOLD, N)[:, None],
    "short and full": lambda rng: (np.arange(N)[None] < THRESHOLD) | (rng.random(N) < 0.5)[:, None],
    "three lists": lambda rng: (rng.random((3, N)) < 0.8)[rng.integers(0, 3, N)],
}  # fmt: skip


REFUSED = {"random lists", "each its own loss", "without oneself", "too short lists"}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_with_the_check_no_two_lists_are_opened(strategy):
    """2 t = 12 > N + c = 11. Each client that opens was told a list with itself, of at least t, that t users signed."""
    rng, opened = np.random.default_rng(1), 0
    for _ in range(12):
        alive = rng.random(N) < 0.95
        online = alive & (rng.random(N) < 0.95)
        told = STRATEGIES[strategy](rng)
        header = close(QUORUMS[1], *(jnp.asarray(a) for a in (alive, online, told)))
        answered = np.asarray(header.online)
        assert len({row.tobytes() for row in told[answered]}) <= 1
        for client in np.flatnonzero(answered):
            alike = (told == told[client]).all(1) & online | np.asarray(HELPS)
            assert online[client] and told[client, client] and told[client].sum() >= THRESHOLD <= alike.sum()
        for client in np.flatnonzero(~answered & online):
            alike = (told == told[client]).all(1) & online & told.diagonal() | np.asarray(HELPS)
            assert not (told[client, client] and told[client].sum() >= THRESHOLD <= alike.sum())
        opened += answered.any()
        free = np.asarray(close(QUORUMS[0], *(jnp.asarray(a) for a in (alive, online, told))).online)
        assert (free == online & told.diagonal() & (told.sum(1) >= THRESHOLD)).all()
    assert (opened == 0) == (strategy in REFUSED)


def test_without_the_check_two_lists_are_opened_and_colluders_sign_what_is_too_few_without_them():
    told = np.ones((N, N), bool)
    told[4:, 0] = False
    everyone = survivors(N)
    assert close(QUORUMS[0], everyone, everyone, jnp.asarray(told)).online.all()
    told[:4] = told[4]
    told[0] = told[0] | True
    told[1:4, 1] = [False, True, True]
    nobody = close(QUORUMS[1], everyone, everyone, jnp.asarray(told), jnp.zeros(N, bool)).online
    assert nobody.tolist() == (np.arange(N) >= 2).tolist()


def test_what_a_client_opens_is_of_the_kind_its_own_list_says():
    """A share of the seed of each user on the list, and of the key of every other."""
    told = np.random.default_rng(0).random((N, N)) < 0.8
    np.fill_diagonal(told, True)
    header = close(QUORUMS[0], survivors(N), survivors(N), jnp.asarray(told))
    slot = np.asarray(sharing.all_peers(QUORUMS[0], ROSTER).slot)
    for client in np.flatnonzero(told.sum(1) >= THRESHOLD):
        on_list = told[client, slot[client]]
        assert (np.asarray(header.told[client]) == on_list).all()
        expected = np.where(on_list[:, None], PRIVATE.shares[client, :, 2:], PRIVATE.shares[client, :, :2])
        assert (np.asarray(header.shares[client]) == expected).all()
    assert (told.sum(1) >= THRESHOLD).any() and told.sum() < N * N


@jax.jit
def seeds_rebuilt(told):
    header = close(QUORUMS[0], survivors(N), survivors(N), told)
    return opening.rebuild(QUORUMS[0], ROSTER, header.shares, header.online, header.told)


@pytest.mark.parametrize("lists", [N - THRESHOLD, N - THRESHOLD + 1])
def test_a_seed_is_rebuilt_from_shares_of_seeds_alone(lists):
    """So many clients were told that user 2 is lost and open a share of its key: wherever these stand on the circle,
    its seed comes from the others, if they are as many as the threshold."""
    others = np.delete(np.arange(N), 2)
    for turn in range(N - 1):
        told = np.ones((N, N), bool)
        told[np.roll(others, turn)[:lists], 2] = False
        seeds, enough = seeds_rebuilt(jnp.asarray(told))
        assert bool(enough[2]) == (N - lists >= THRESHOLD) and np.delete(np.asarray(enough), 2).all()
        assert same_bits(seeds[2], PRIVATE.seed[2]) == bool(enough[2])


@functools.partial(jax.jit, static_argnames="quorum")
def honest_round(quorum, alive, online, told):
    """What is opened and rebuilt, and its bits: of an honest server, or with lists that say the truth."""
    lists = None if told is None else Lists(told, jnp.zeros(N, bool))
    header, bits = opening.disclose(quorum, PRIVATE, ROSTER, (), alive, online, lists)
    return header._replace(told=()), opening.reconstruct(quorum, header, ROSTER), bits


def test_the_check_changes_no_honest_round_and_costs_its_bits():
    """Fifty random rounds, with the check and without, and with lists that happen to be the same for all."""
    rng, outcomes = np.random.default_rng(2), set()
    for _ in range(50):
        alive = rng.random(N) < 0.85
        online = alive & (rng.random(N) < 0.85)
        who = jnp.asarray(alive), jnp.asarray(online)
        header, rebuilt, bits = honest_round(QUORUMS[0], *who, None)
        checked = honest_round(QUORUMS[1], *who, None)
        assert same_bits(checked, honest_round(QUORUMS[1], *who, jnp.broadcast_to(who[0], (N, N))))
        bits, costs = jax.tree.map(np.asarray, (bits, checked[2]))
        if online.sum() >= THRESHOLD:
            assert same_bits((header, rebuilt), checked[:2]) and same_bits(bits["unmask"].up, costs["unmask"].up)
        outcomes |= {*np.asarray(rebuilt.recovered).tolist()}
        assert same_bits(rebuilt.recovered, checked[1].recovered)
        assert (costs["consistency"].up == 512 * online).all() and not costs["unmask"].down.any()
        assert (costs["consistency"].down == 16 * alive + 512 * max(online.sum() - 1, 0) * online).all()
        assert (bits["unmask"].down == 16 * alive).all() and "consistency" not in bits
    assert outcomes == {False, True}


def test_each_group_compares_the_part_of_its_lists_that_is_about_itself():
    """Three groups of 3: what is said of others changes nothing; of two lists in a group each is signed by too few."""
    quorum, who = sharing.quorum_of(3, "all", 2, True), cohort_of(N, group=[0, 0, 0, 1, 1, 1, 2, 2, 2])
    private, roster, _ = jax.jit(functools.partial(sharing.open_round, quorum))(jax.random.key(0), who)
    told = np.random.default_rng(0).random((N, N)) < 0.5
    told[:3, :3] = told[3:6, 3:6] = told[6:, 6:] = True
    told[0, 2] = told[1, 0] = told[3, 4] = False
    told[2, :3] = [False, True, True]
    header, _ = opening.disclose(
        quorum, private, roster, (), survivors(N), survivors(N), Lists(jnp.asarray(told), ~HELPS & HELPS)
    )
    assert header.online.tolist() == [False, True, True, False, True, True, True, True, True]
