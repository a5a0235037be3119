"""What a ledger says of sums without noise: the attack of `leakage` opens what it calls open, and nothing else."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

from fedjax_priv import aggregators, simulate
from fedjax_priv.base import ClientData
from fedjax_priv.layers import coded_masks, pairwise_masks
from fedjax_priv.layers.secure_sum.circle import CONNECTED
from fedjax_priv.leakage import colluders_of_round, secagg_protocol, separate
from fedjax_priv.ledger import ledger
from fedjax_priv.ledger.sums_of_one_model import NOTE
from fedjax_priv.runs.failures import EveryRoundFailed
from fedjax_priv.systems import (
    common_secagg,
    compose,
    fedrep,
    flamingo,
    lightsecagg,
    one_shot_secagg,
    secagg,
    secure_fedbuff,
    sparse_secagg,
    thresholded_secagg,
)
from helpers import targets, towards_target

N, D, LEVELS, BOUND = 8, 3, 2.0**8, 2**11
KEYS = [jax.random.key(number) for number in range(12)]
DATA = targets(N, D)
OPEN = "single uploads can be read"
OVERFLOW = "who reports a number that is too large for the sum, or not finite"


def note_of(system, counted, colluding=0, sent=None, rejected=None, status=None, client=None):
    counted, each = np.atleast_2d(counted), ("round", "client")
    sent = counted if sent is None else np.atleast_2d(sent)
    variables = {
        "client_id": (each, np.broadcast_to(np.arange(N) if client is None else client, counted.shape)),
        "counted": (each, counted),
        "up_bytes": (("phase", *each), sent[None] * 64.0),
    }  # fmt: skip
    if rejected is not None:
        variables["rejected"] = (each, np.broadcast_to(rejected, counted.shape))
    if status is not None:
        variables["status"] = (("round",), np.array(status))
    run = xr.Dataset(variables, {"phase": ["upload"]}, {"num_params": D})
    *_, entry = ledger(system, run, DATA, delta=1e-5, colluding=colluding)
    assert entry.proved.epsilon is None
    return entry.note


@functools.cache
def recovered(**masks):
    """A system, its masks, and rounds of it in which a sum was opened: the key, and what the server saw."""
    how: dict[str, Any] = dict(num_clients=N, dropout=0.3, levels=LEVELS, observe=lambda view: view, mesh=None, block=N)
    system = secagg(towards_target(), **how, **masks)
    state = system.init(KEYS[0], jnp.zeros(D), DATA)
    step = jax.jit(lambda key: system.step(key, state, DATA)[1])
    rounds = [(key, info.observed) for key in KEYS if int((info := step(key)).status) == 0]
    return system, secagg_protocol(group_size=N, **masks), rounds


def sizes_read(key, view, protocol, member=()):
    """Of the smallest sums of honest clients that the server and these colluders read."""
    member = jnp.asarray(np.isin(np.arange(N), member))
    colluders = colluders_of_round(protocol, key, view.public["mask"], member)
    found = separate(view, protocol, bound=BOUND, colluders=colluders, max_size=N)
    assert found.false_hits < 0.1
    return {*found.size.tolist()}


def test_colluders_open_every_upload_or_leave_the_sum_over_the_others():
    """The weakest case is that all colluders upload."""
    system, protocol, rounds = recovered(threshold=3)
    key, view = next(each for each in rounds if int(each[1].alive.sum()) == N - 1)
    alive = np.flatnonzero(view.alive)
    for colluding in range(len(alive)):
        note, read = note_of(system, view.alive, colluding), sizes_read(key, view, protocol, alive[:colluding])
        honest = len(alive) - colluding
        if colluding >= 3 or honest == 1:
            assert read == {1} and note.startswith(OPEN)
        else:
            assert read == {honest} and f"{N} clients, {honest} or more" in note and CONNECTED not in note


def test_the_weakest_of_several_rounds_counts():
    lost = np.arange(N) >= np.array([[8], [6], [7]])
    assert f"{N} clients, 5 or more" in note_of(recovered(threshold=3)[0], ~lost, colluding=1)


def test_a_round_counts_if_enough_uploads_came_for_a_sum_though_it_failed():
    system, came = recovered(threshold=3)[0], np.arange(N) < np.array([[8], [2], [5]])
    counted = came & (np.arange(3) == 0)[:, None]  # the last one failed while it was opened
    assert f"{N} clients, 4 or more" in note_of(system, counted, 1, sent=came)
    assert f"{N} clients, 7 or more" in note_of(system, counted[:2], 1, sent=came[:2])
    assert note_of(system, counted[1:2], 1, sent=came[1:2]) == "no sum was opened"


def test_uploads_whose_proof_failed_are_in_no_sum():
    """Of client 7 the proof fails in both rounds, and in the second one its upload is lost besides."""
    system = secagg(towards_target(), num_clients=N, threshold=3, norm_bound=1.0)
    sent, rejected = np.arange(N) < np.array([[8], [7]]), np.arange(N) == 7
    note = functools.partial(note_of, system, sent & ~rejected, sent=sent, rejected=rejected)
    assert note(1).startswith(
        f"sums over rounds of {N} clients, 6 or more neither lost, rejected nor colluding, and nothing else but "
        f"{OVERFLOW} and whose proof fails;"
    )
    some = secagg(towards_target(), num_clients=N, cohort_size=4, threshold=2, norm_bound=1.0)
    of_others = note_of(some, FIRST[:4], rejected=np.arange(4) == 0, client=np.arange(4, 8))
    assert of_others.startswith("sums over rounds of 4 clients, 3 or more")
    most = np.arange(N) > 1
    assert note_of(system, ~most, sent=np.ones(N, bool), rejected=most) == "no sum was opened"


def test_the_papers_measure_counts_no_upload_whose_proof_failed():
    system, six = sparse_secagg(towards_target(), num_clients=N, alpha=0.5), np.arange(N) < 6
    assert note_of(system, six, sent=np.ones(N, bool), rejected=~six) == note_of(system, six)


@pytest.mark.parametrize("buffer_size", [4, 8])
def test_fedrep_says_so_of_its_buffers(buffer_size):
    aggregate = aggregators.mean()._replace(most_byzantine=None)
    system = fedrep(
        towards_target(), num_clients=N, num_params=D, k=N, buffer_size=buffer_size, threshold=3, aggregate=aggregate
    )
    note = functools.partial(note_of, system, np.ones(N, bool))
    assert f"sums over buffers of {buffer_size} clients, {buffer_size - 2} or more" in note(2)
    assert f"nothing else but {OVERFLOW} and what each client proposes; an upload" in note(1)
    assert note(3) == f"{OPEN}: one is open, at least in part, to 3 colluders among those who hold shares of its masks"


@pytest.mark.parametrize("masks", [dict(threshold=3), dict(neighbours=4, threshold=3)])
@pytest.mark.parametrize("make", [secagg, functools.partial(common_secagg, num_params=D, alpha=1.0)])
def test_masks_that_a_system_is_given_say_as_much_as_its_own(make, masks):
    own, given = (
        make(towards_target(), num_clients=N, **how)
        for how in (masks, dict(secure_sum=pairwise_masks(group_size=N, **masks)))
    )
    for colluding in (0, 2, 3):
        said = note_of(own, np.ones(N, bool), colluding)
        assert note_of(given, np.ones(N, bool), colluding) == said
        assert said.startswith(OPEN) == (colluding == 3)


def test_among_neighbours_the_sum_is_all_that_is_read_only_if_honest_survivors_are_connected():
    system, protocol, rounds = recovered(neighbours=2, threshold=2)
    note = note_of(system, np.ones(N, bool))
    opened = "an upload is open to 2 colluders among its sender's neighbours"
    assert f"nothing else but {OVERFLOW} {CONNECTED}; {opened}" in note
    whole = []
    for key, view in rounds:
        alive = np.asarray(view.alive)
        on_circle = alive[np.asarray(view.public["mask"].circle.order)]
        breaks = (on_circle & ~np.roll(on_circle, -1)).sum()
        read = sizes_read(key, view, protocol)
        assert (read == {alive.sum()}) == (breaks < 2)
        whole.append(breaks < 2)
    assert any(whole) and not all(whole)


def test_two_neighbours_of_a_client_that_collude_read_it():
    system, protocol, rounds = recovered(neighbours=2, threshold=2)
    key, view = max(rounds, key=lambda each: int(each[1].alive.sum()))
    circle = np.asarray(view.public["mask"].circle.order)
    between = next(at for at in range(N) if view.alive[circle[at]])
    assert 1 in sizes_read(key, view, protocol, circle[[(between - 1) % N, (between + 1) % N]])
    note = note_of(system, view.alive, colluding=2)
    assert note.startswith(OPEN) and "to 2 colluders among its sender's neighbours" in note and CONNECTED not in note


SECURE: dict[str, Any] = dict(num_clients=N, num_params=D)
CODED: dict[str, Any] = dict(num_values=D, group_size=N, colluders=2, threshold=4, lost=2)
MASKS = {
    "common": (lambda local: common_secagg(local, **SECURE, alpha=1.0, threshold=3), 3, 3),
    "coded": (lambda local: lightsecagg(local, **SECURE, colluders=2, threshold=4, lost=2), 4, 3),
    "given to secagg": (lambda local: secagg(local, num_clients=N, secure_sum=coded_masks(**CODED)), 4, 3),
    "one shot": (lambda local: one_shot_secagg(local, **SECURE, committee=4, threshold=2, fewest=5), 5, 2),
    "Flamingo": (lambda local: flamingo(local, num_clients=N, committee=4, threshold=2, fewest=5), 5, 2),
    "coded buffers": (
        lambda local: secure_fedbuff(local, num_clients=20, num_params=D, buffer_size=N, colluders=2, lost=2), 6, 3,
    ),
    "enrolled": (lambda local: compose(local, **SECURE, secure="enrolled", weigh="expected", threshold=4), 4, N),
}  # fmt: skip
"""How each is made, the fewest uploads in a sum, and colluders that open one; tests of layers have the attacks."""


@pytest.mark.parametrize("name", MASKS)
def test_other_masks_say_the_fewest_honest_clients_and_how_many_open_one(name):
    make, fewest, opens = MASKS[name]
    system = make(towards_target())
    for lost in (0, 2, N - fewest):
        for colluding in range(N):
            note, honest = note_of(system, np.arange(N) >= lost, colluding), max(N - lost, fewest) - colluding
            hidden = colluding < opens and honest > 1
            assert note.startswith(f"sums over rounds of {N} clients, {honest} or more" if hidden else OPEN)
            few = f"{OPEN}: at most one of the {honest + colluding} clients in the smallest sum need be honest"
            assert (note == few) == (colluding < opens and honest <= 1)
            assert not hidden or (f"{opens} colluders" in note) == (opens < N)


@pytest.mark.parametrize("base", ["none", "pairwise"])
def test_a_committee_that_colludes_opens_values_whatever_the_threshold(base):
    system = thresholded_secagg(
        towards_target(), **SECURE, alpha=1.0, select="pairs", base=base, threshold=7, committee=4, quorum=3
    )
    two, three = (note_of(system, np.ones(N, bool), colluding) for colluding in (2, 3))
    assert "at least 5 of them do not collude" in two
    assert "do not collude" not in three and "alone: 3 colluders suffice, if they are members" in three
    assert three.endswith("pairs") == (base == "pairwise")
    all_but_one = thresholded_secagg(towards_target(), **SECURE, alpha=1.0, threshold=7, committee=8, quorum=8)
    assert "colluders that claim every coordinate" in note_of(all_but_one, np.ones(N, bool), 6)
    single = thresholded_secagg(towards_target(), **SECURE, alpha=1.0, threshold=1, committee=4, quorum=3)
    assert "values that one client sent are read alone" in note_of(single, np.ones(N, bool))


def test_the_papers_measure_of_sparse_sums_is_for_colluders_that_open_nothing():
    system = sparse_secagg(towards_target(), num_clients=N, alpha=0.5, threshold=6)
    notes = [note_of(system, np.ones(N, bool), colluding) for colluding in (3, 4, 5, 6)]
    assert notes[0].startswith("T = ") and "open to 6 colluders" in notes[0]
    assert notes[1] == notes[2] == NO_T
    assert notes[3].startswith(f"{OPEN}: one is open to 6 colluders")


def test_all_neighbours_of_a_client_read_what_it_sends_of_a_sparse_sum():
    """Though they are fewer than the threshold: each knows the mask it shares with the client."""
    masks = dict(alpha=0.9, neighbours=2, threshold=3)
    system, sends = sparse_secagg(towards_target(), num_clients=N, **masks), np.ones(N, bool)
    assert note_of(system, sends, 1).endswith("an upload is open to 2 colluders among its sender's neighbours")
    assert note_of(system, sends, 2).startswith(f"{OPEN}: one is open to 2 colluders among its sender's neighbours")


NO_T = "no T: Theorem 2 is for fewer than 4 colluders, and fewer than 4 lost in a round"


def test_rounds_that_opened_no_sum_do_not_lower_the_papers_measure():
    """T is of the rounds that opened a sum: 6 of 8 clients in both."""
    system = sparse_secagg(towards_target(), num_clients=N, alpha=0.5)
    six, none = np.arange(N) < 6, np.zeros(N, bool)
    assert note_of(system, [six, none, none]) == note_of(system, six)
    expected = (1 - np.exp(-0.5)) * 6  # (1 - e^-alpha) (1 - theta) (1 - gamma) N, with gamma = 0
    assert note_of(system, six).startswith(f"T = {expected:.1f} honest")
    assert note_of(system, [none, none]) == "no sum was opened"


def test_the_papers_measure_is_of_sums_that_were_opened_though_a_round_failed():
    """Threshold 6: of 8, 6 and 3 uploads the last opens nothing; that the second round failed later hides nothing."""
    system = sparse_secagg(towards_target(), num_clients=N, alpha=0.5, threshold=6)
    came = np.arange(N) < np.array([[8], [6], [3]])
    counted = came & (np.arange(3) == 0)[:, None]
    expected = (1 - np.exp(-0.5)) * 7
    assert note_of(system, counted, sent=came).startswith(f"T = {expected:.1f} honest")
    assert note_of(system, counted[2:], sent=came[2:]) == "no sum was opened"


@pytest.mark.parametrize(("arrived", "refused"), [(3, True), (4, True), (5, False)])
def test_the_papers_measure_is_for_fewer_than_half_lost(arrived, refused):
    system = sparse_secagg(towards_target(), num_clients=N, alpha=0.5, threshold=2)
    assert (note_of(system, np.arange(N) < arrived) == NO_T) == refused


def test_sums_of_rounds_that_failed_tell_single_updates_and_the_note_says_so():
    """Client 0 reports a number that is too large in every round, so all sums are of the first model."""
    data = ClientData(DATA.examples.at[0, D - 1].set(-1e4), jnp.ones(N, jnp.int32))
    system = secagg(
        towards_target(), num_clients=N, threshold=2, dropout=0.1, levels=2.0**20, mesh=None,
        observe=lambda view: {"sum": view.rows.value.reshape(-1)},
    )  # fmt: skip
    with pytest.warns(EveryRoundFailed):
        run = simulate(system, KEYS[3], jnp.zeros(D), data, rounds=6)
    came = run.up_bytes.sel(phase="upload").values > 0
    (one, other), *_ = np.argwhere((came[:, None] & ~came).sum(2) + 9 * (~came[:, None] & came).sum(2) == 1)
    (client,) = np.flatnonzero(came[one] & ~came[other])
    assert client > 0 and run.failed_rounds == 6
    weight = 1 / N / 0.9
    read = (run["sum"].values[one] - run["sum"].values[other]) / weight
    np.testing.assert_allclose(read[: D - 1], -data.examples[client, : D - 1], rtol=0, atol=1e-4)
    *_, entry = ledger(system, run, data, delta=1e-5)
    assert NOTE in entry.note


ALL, NOT_7, FIRST, TWO = (np.arange(N) < size for size in (N, 7, 4, 2))
LAST = ~FIRST
TOO_LARGE, NOT_RECOVERED = 4, 1


@pytest.mark.parametrize(
    ("came", "status", "told"),
    [
        ([ALL, NOT_7], [TOO_LARGE, 0], True),
        ([ALL, NOT_7], [0, TOO_LARGE], False),  # the first moved the model
        ([ALL, ALL, NOT_7], [0, TOO_LARGE, 0], True),
        ([ALL, ALL], [TOO_LARGE, 0], False),
        ([FIRST, LAST], [TOO_LARGE, 0], False),  # as clients.once_per_model leaves it
        ([ALL, NOT_7], [NOT_RECOVERED, 0], False),  # the first sum was not opened
        ([ALL, NOT_7, ALL], [TOO_LARGE, NOT_RECOVERED, 0], False),
        ([ALL, NOT_7], [TOO_LARGE | NOT_RECOVERED, 0], True),  # of another group than the one that was too large
        ([TWO, ALL], [TOO_LARGE | NOT_RECOVERED, 0], False),  # two are too few
    ],
)
def test_sums_of_one_model_over_different_clients_are_noted(came, status, told):
    """Where clients choose coordinates, sums over the same clients are of others at each coordinate."""
    sums = secagg(towards_target(), num_clients=N, threshold=3)
    sparse = sparse_secagg(towards_target(), num_clients=N, alpha=0.5)
    opened = thresholded_secagg(towards_target(), **SECURE, alpha=1.0, threshold=3, committee=4, quorum=3)
    twice = sum(one is ALL for one in came) > 1
    for system, chosen in ((sums, False), (sparse, True), (opened, True)):
        assert (NOTE in note_of(system, came, status=status)) == (told or (twice and chosen))


def test_colluders_open_rounds_in_which_too_few_clients_answered():
    """A colluder that is gone brings the share that is missing. But the two that came alone refuse so short a list."""
    system = secagg(towards_target(), num_clients=N, threshold=3)
    noted = lambda came, colluding: NOTE in note_of(system, came, colluding, status=[NOT_RECOVERED, 0])
    assert [noted([ALL, NOT_7], colluding) for colluding in (0, 1)] == [False, True]
    assert not noted([TWO, ALL], 1)


def test_groups_change_from_round_to_round():
    aggregate = aggregators.mean()._replace(most_byzantine=None)
    system = fedrep(towards_target(), num_clients=N, num_params=D, k=N, buffer_size=4, threshold=3, aggregate=aggregate)
    assert NOTE in note_of(system, [ALL, ALL], status=[TOO_LARGE, 0])
    assert NOTE not in note_of(system, [ALL, ALL], status=[0, 0])
