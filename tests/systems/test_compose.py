"""Published systems as compositions, bit for bit, and what is new in a composition."""

import functools
import pathlib
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from systems.same_parts import alike, parts_of

from fedjax_priv import systems
from fedjax_priv.aggregators import (
    centered_clipping,
    coordinate_median,
    filter_l2,
    krum,
    mean,
    norm_trimming,
    trimmed_mean,
)
from fedjax_priv.aggregators.by_name import unprotected_mean
from fedjax_priv.attacks import foe, random_elements, same_set, sign_flip, sum_replacement
from fedjax_priv.base import Aggregator, ClientData
from fedjax_priv.channels import rician
from fedjax_priv.clients import bernoulli, channel_aware
from fedjax_priv.crypto import field
from fedjax_priv.systems.composition import MARKS, Stack, marks_of
from fedjax_priv.systems.releases import NoisyUploads, SketchedUploads
from helpers import of_the_round, rounds_of, targets, towards_target

N, D, KEY = 8, 12, jax.random.key(0)
LOST = {"dropout": 0.2}
SAME = {
    "fedavg": (LOST, LOST | {"weigh": "survivors"}),
    "fedavg, cohort": ({"cohort_size": 5, "exact": False}, {"cohort_size": 5, "exact": False, "weigh": "survivors"}),
    "sparse_fedavg": (
        dict(num_params=D, k=3, sparsifier="rand_k", num_clients=N, cohort_size=5, **LOST),
        dict(compress="rand_k", k=3, weigh="expected", cohort_size=5, **LOST),
    ),
    "robust_fedavg": (
        dict(aggregate=coordinate_median(), num_byzantine=2, attack=foe(2.0), **LOST),
        dict(aggregate=coordinate_median(), num_byzantine=2, attack=foe(2.0), exact=False, **LOST),
    ),
    "rcgd_ef": (
        dict(num_params=D, ratio=0.3, num_byzantine=2, attack=foe(2.0), **LOST),
        dict(compress="top_k", ratio=0.3, error_feedback=True, aggregate=norm_trimming(0.25), num_byzantine=2,
             attack=foe(2.0), exact=False, **LOST),
    ),
    "secagg": (
        dict(clip=2.0, noise_variance=0.01, cohort_size=6, neighbours=4, leave=0.1, levels=2.0**12, **LOST),
        dict(secure="secagg", private="field", weigh="expected", clip=2.0, noise_variance=0.01, cohort_size=6,
             neighbours=4, leave=0.1, levels=2.0**12, **LOST),
    ),
    "secagg, proofs": (
        {"clip": 2.0, "norm_bound": 2.0}, dict(secure="secagg", weigh="expected", clip=2.0, norm_bound=2.0),
    ),
    "secagg, survivors": (
        {"normalize": "survivors", "threshold": 3, "clip": 2.0, "check_range": True},
        {"secure": "secagg", "weigh": "survivors", "threshold": 3, "clip": 2.0, "check_range": True},
    ),
    "common_secagg": (
        dict(num_params=D, alpha=0.3, error_feedback=True, **LOST),  # 3.6 of 12
        dict(secure="secagg", compress="common", k=3, error_feedback=True, weigh="expected", **LOST),
    ),
    "sparse_secagg": (
        dict(alpha=0.8, **LOST), dict(secure="sparse_secagg", ratio=0.8, levels=2.0**16, weigh="expected", **LOST),
    ),
    "fedrep": (
        dict(num_params=D, k=8, alpha=0.3, aggregate=centered_clipping(), num_byzantine=1, attack=foe(2.0),
             coordinate_attack=same_set(), clip=3.0, noise_variance=0.01, levels=2.0**12, leave=0.1),
        dict(compress="conspar", k=8, alpha=0.3, aggregate=centered_clipping(), num_byzantine=1, attack=foe(2.0),
             coordinate_attack=same_set(), private="field", clip=3.0, noise_variance=0.01, levels=2.0**12, leave=0.1,
             secure="secagg", buffer_size=2),
    ),
    "fedrep, rows": (
        dict(num_params=D, k=8, num_byzantine=1, group_attack=foe(2.0), clip=3.0, noise_variance=0.01, levels=2.0**12),
        dict(compress="conspar", k=8, aggregate=centered_clipping(), num_byzantine=1, group_attack=foe(2.0),
             private="field", clip=3.0, noise_variance=0.01, levels=2.0**12, secure="secagg", buffer_size=2),
    ),
    "robajol": (
        dict(num_params=D, k=6, clip=2.0, noise_multiplier=0.5, num_byzantine=2, attack=foe(2.0), **LOST),
        dict(compress="jl", k=6, private="local", clip=2.0, noise_variance=1.0, aggregate=centered_clipping(),
             num_byzantine=2, attack=foe(2.0), exact=False, **LOST),
    ),
    "share": (
        dict(buffer_size=2, num_byzantine=1, field_attack=random_elements(), **LOST),
        dict(secure="secagg", buffer_size=2, aggregate=centered_clipping(), num_byzantine=1,
             field_attack=random_elements(), **LOST),
    ),
    "share, rows": (
        dict(buffer_size=2, num_byzantine=1, group_attack=foe(2e6), levels=2.0**12, **LOST),
        dict(secure="secagg", buffer_size=2, aggregate=centered_clipping(), num_byzantine=1, group_attack=foe(2e6),
             levels=2.0**12, **LOST),
    ),
    "f2ed": (
        dict(buffer_size=1, in_the_clear=True, sigma=0.5),
        dict(secure="field", buffer_size=1, aggregate=filter_l2(0.5)),
    ),
    "thresholded_secagg": (
        dict(num_params=D, alpha=0.5, threshold=2, committee=5, quorum=4, leave=0.1, levels=2.0**12, **LOST),
        dict(secure="thresholded", compress="rand_k", k=6, threshold=2, committee=5, quorum=4, leave=0.1,
             levels=2.0**12, weigh="expected", **LOST),
    ),
    "thresholded_secagg, largest": (
        dict(num_params=D, alpha=0.3, select="top_k", **LOST),
        dict(secure="thresholded", compress="top_k", k=3, error_feedback=True, levels=2.0**16, weigh="expected",
             **LOST),
    ),
    "cdp_fl": (dict(cohort_size=5, **LOST), dict(secure="enrolled", cohort_size=5, **LOST)),
    "dp_sgd": ({}, {"secure": "enrolled"}),
    "wireless": (
        dict(clip=2.0, noise_variance=0.1, participation=0.7, snr_db=10.0),
        dict(channel="multiple_access", private="local", clip=2.0, noise_variance=0.1, snr_db=10.0,
             cohort=bernoulli(0.7, fading=rician())),
    ),
    "wireless, orthogonal": (
        dict(clip=2.0, noise_variance=0.1, threshold=2.0, access="orthogonal", snr_db=10.0, power_control="signal"),
        dict(channel="orthogonal", private="local", clip=2.0, noise_variance=0.1, snr_db=10.0, power_control="signal",
             cohort=channel_aware(2.0, rician())),
    ),
}  # fmt: skip
RELEASED = {
    "robajol": lambda release: SketchedUploads(release.clip, 0.5),  # the same noise, by another accountant
}
COUNTED = SAME.keys() - {"fedavg", "fedavg, cohort", "sparse_fedavg", "wireless", "wireless, orthogonal"}
"""Those that are told the number of clients (one of them among other arguments)."""
NOT_THESE = {
    "blind_wireless": "several antennas hear its clients, which is no choice of `channel`",
    "dp_fedavg": "its noise is the server's, of every round, whoever comes",
    "distributed_dp_fedavg": "its sums are modulo a power of two, of rotated updates",
    "fedbuff": "its rounds are asynchronous",
    "fednova": "its updates are divided by local steps, which is no choice of `weigh`",
    "secure_fedbuff": "its rounds are asynchronous",
    "scaffold": "its clients send two vectors and are told one with the model",
    "lightsecagg": "its masks are those of a code, which is no choice of `secure`",
    "digital_fedavg": "its uploads have as many bits as its links carry, which is no choice of `channel`",
    "majority_vote": "it sends signs, which is no choice of `compress`",
    "over_the_air_vote": "it sends signs, which is no choice of `compress`",
    "two_tone_vote": "it sends signs, which is no choice of `compress`",
    "flamingo": "its masks are opened by a committee, which is no choice of `secure`",
    "one_shot_secagg": "its masks leave less of the field, which is no choice of `secure`",
}
"""Published systems that `compose` cannot write, and why."""


def composed(**choices):
    return systems.compose(towards_target(), **{"num_clients": N, "num_params": D, "mesh": None} | choices)


def published(name, own):
    function = getattr(systems, name.split(",")[0])
    return function(towards_target(), mesh=None, **({"num_clients": N} if name in COUNTED else {}), **own)


@pytest.mark.parametrize("name", SAME)
def test_a_published_system_is_a_composition(name):
    """So it is the same program, with the same bits; what it releases is the same."""
    own, ours = SAME[name]
    theirs, composition = published(name, own), composed(**ours)
    assert alike(theirs.release, RELEASED.get(name, lambda release: release)(composition.release))
    assert alike(parts_of(theirs), parts_of(composition))


@pytest.mark.parametrize("other", [{"dropout": 0.25}, {"weigh": "expected"}, {"exact": False}, {"cohort_size": 4}])
def test_another_composition_has_other_parts(other):
    """Control."""
    own, ours = SAME["fedavg"]
    assert not alike(parts_of(published("fedavg", own)), parts_of(composed(**ours | other)))


def test_every_published_system_is_composed_or_said_not_to_be():
    named = {name.split(",")[0] for name in SAME}
    assert named | NOT_THESE.keys() == {*systems.__all__} - {"compose"} and not named & NOT_THESE.keys()


def test_the_page_says_which_systems_are_compositions_and_why_others_are_not():
    page = (pathlib.Path(__file__).parents[2] / "docs" / "compose.md").read_text()
    _, others, these = re.split(r"^\| system \|", page, flags=re.MULTILINE)
    rows = {
        part: set(re.findall(r"`(\w+)`", " ".join(re.findall(r"^\|([^|]+)\|", part, re.MULTILINE))))
        for part in (others, these)
    }
    assert rows[others] == NOT_THESE.keys() | {"thresholded_secagg"}
    assert rows[these] == {name.split(",")[0] for name in SAME}


median = coordinate_median()
NOISY = {"clip": 1.0, "noise_variance": 0.1}
ON_AIR = {"channel": "multiple_access", "clip": 1.0}
OPENED = {"secure": "thresholded", "compress": "rand_k"}


@pytest.mark.parametrize(
    ("how", "largest"), [({}, np.inf), ({"secure": "field"}, 1024), ({"secure": "secagg", "elide": True}, 1024)]
)
def test_attackers_choose_the_mean_of_a_row(how, largest):
    """Of floats any; a client that sends field elements reaches 2**30 steps, so that the sum of two does not wrap."""
    x = np.random.default_rng(0).normal(size=(N, D)).astype(np.float32)
    longest = lambda rows: rows[jnp.argmax(jnp.square(rows).sum(1))]
    rule = Aggregator(lambda d: (), lambda key, state, received: (longest(received.value), state))

    @jax.jit
    def direction(chosen):
        system = systems.compose(
            of_the_round(jnp.asarray(x)[:, None]), num_clients=N, mesh=None, buffer_size=2, aggregate=rule,
            num_byzantine=1, group_attack=lambda *args: jnp.full((1, D), chosen), **how,
        )  # fmt: skip
        return system.step(KEY, system.init(KEY, jnp.zeros(D), targets(N, D)), targets(N, D))[1].direction

    for chosen in (3.0, 1e6):
        means = (np.minimum(2 * chosen - x, largest) + x) / 2  # by partner
        assert np.abs(means[1:] - np.asarray(direction(chosen))).max(1).min() < 1e-5 * chosen


def test_what_equals_a_default_is_not_given():
    """As from a command line, which gives all options: the number counts, not the object."""
    composed(levels=float("1048576"), elide=np.bool_(False))


def test_a_power_of_each_client_and_a_traced_number_are_as_in_wireless():
    of_each = {"snr_db": np.arange(float(N)), "participation": 0.7}
    theirs = systems.wireless(towards_target(), mesh=None, clip=1.0, noise_variance=0.0, **of_each)
    ours = composed(**ON_AIR, snr_db=np.arange(float(N)), cohort=bernoulli(0.7, fading=rician()))
    assert alike(parts_of(theirs), parts_of(ours))
    jax.eval_shape(lambda noise: composed(**ON_AIR, receiver_noise=noise) and noise, 1.0)


@pytest.mark.parametrize(
    "how", [{}, {"secure": "field"}, {"secure": "field", "check_range": True}], ids=["clear", "field", "checked"]
)
def test_weights_of_survivors_divide_clipped_sums_and_are_not_clipped(how):
    """`sum clip(w x) / sum w`, of long updates and short ones; a weight of 1/2 is far beyond the clip."""
    count, clip = np.array([4, 1, 2, 1]), 0.1
    x = np.random.default_rng(0).normal(size=(4, D)) * np.array([[5.0], [1e-2], [1.0], [0.2]])
    system = systems.compose(
        of_the_round(jnp.asarray(x, jnp.float32)[:, None]),
        num_clients=4,
        weigh="survivors",
        clip=clip,
        mesh=None,
        **how,
    )
    data = ClientData(jnp.zeros((4, 1)), jnp.asarray(count, jnp.int32))
    _, info = rounds_of(system, jax.random.key(0), jnp.zeros(D), data, 1)
    weighted = (count / 8)[:, None] * x
    short = weighted * np.minimum(1, clip / np.linalg.norm(weighted, axis=1, keepdims=True))
    assert not info.status.any()
    np.testing.assert_allclose(info.direction[0], short.sum(0), atol=1e-5)


@pytest.mark.parametrize(
    ("how", "sent"),
    [
        ({"attack": sign_flip(3.0)}, lambda weighted: -3 * weighted[0]),
        ({"attack": foe(10.0), "secure": "field"}, lambda weighted: -10 * weighted[1:].mean(0)),
        ({"field_attack": sum_replacement(2**18), "secure": "field"}, lambda weighted: 0.25 - weighted[1:].sum(0)),
    ],
    ids=["sign_flip", "foe", "sum_replacement"],
)
def test_attackers_keep_their_weight_among_survivors(how, sent):
    """Client 0 forges `w x` and no `w`: the direction is the forged sum by all weights, which make 1."""
    count = np.array([3, 1, 2, 2])
    x = np.random.default_rng(1).normal(1.0, 0.1, size=(4, D))
    system = systems.compose(
        of_the_round(jnp.asarray(x, jnp.float32)[:, None]), num_clients=4, num_byzantine=1, weigh="survivors",
        mesh=None, **how,
    )  # fmt: skip
    data = ClientData(jnp.zeros((4, 1)), jnp.asarray(count, jnp.int32))
    _, info = rounds_of(system, jax.random.key(0), jnp.zeros(D), data, 1)
    weighted = (count / 8)[:, None] * x
    assert not info.status.any()
    np.testing.assert_allclose(info.direction[0], sent(weighted) + weighted[1:].sum(0), atol=2e-5)


@pytest.mark.parametrize("secure", ["none", "thresholded"])
def test_what_a_client_chooses_is_clipped_and_noised_on_its_values(secure):
    """Noise is where values are, so an upload has it at k of d coordinates; the ledger speaks of an upload alone."""
    system = composed(
        secure=secure, compress="rand_k", k=4, private="local", clip=0.5, noise_variance=1e-6,
        observe=lambda seen: seen,
        **({"elide": True, "levels": 2.0**16} if secure == "thresholded" else {}),
    )  # fmt: skip
    data = ClientData(jnp.full((N, D), -1.0), jnp.ones(N, jnp.int32))
    step = lambda: system.step(KEY, system.init(KEY, jnp.zeros(D), data), data)[1]
    sent = jax.jit(step)().observed.uploads
    rows = np.asarray(field.to_signed(sent)) / 2**16 if secure == "thresholded" else np.asarray(sent.value)
    assert (np.count_nonzero(rows, axis=1) == 4).all()
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 0.5, atol=0.01)
    assert system.release == NoisyUploads(0.5, 1e-6, secure == "thresholded")


def test_marks_of_possible_stacks():
    """What is not refused and still needs saying; a stack without any of it has none."""
    buffers = Stack(N, secure="secagg", buffer_size=2, aggregate=median, num_byzantine=1)
    noisy = buffers._replace(private="field", clip=1.0, noise_variance=0.1, compress="conspar", dropout=0.1)
    common = Stack(N, compress="common", aggregate=unprotected_mean(), num_byzantine=1)
    assert (marks_of(buffers), marks_of(noisy), marks_of(common)) == ("", "phd", "rm")
    assert marks_of(buffers._replace(compress="common")) == marks_of(buffers._replace(compress="jl")) == "rq"
    assert marks_of(Stack(N, secure="thresholded", compress="rand_k")) == "t"
    assert {*"phdrmqt"} == MARKS.keys()


def test_a_stack_is_marked_where_lost_clients_leave_too_few_rows():
    """A trimmed mean for 3 needs 7 rows: of 8, at 0.3, 1 - 0.7^8 - 8 0.3 0.7^7 = 0.74 of the rounds have fewer."""
    trimmed = trimmed_mean(3)
    plain = lambda n, rule=trimmed, f=3, **how: marks_of(Stack(n, aggregate=rule, num_byzantine=f, **how))
    fewer = lambda lost: 1 - (1 - lost) ** 8 - 8 * lost * (1 - lost) ** 7
    assert fewer(0.3) > 0.7 and plain(8, dropout=0.3) == "d"
    assert fewer(0.006) < 1e-3 < fewer(0.0065) and (plain(8, dropout=0.006), plain(8, dropout=0.0065)) == ("", "d")
    assert plain(32, dropout=0.3) == plain(8) == "" == plain(8, dropout=0.0)
    assert plain(8, krum(1), 1, dropout=0.3) == "d", "of at least 5 rows: 0.19 of the rounds"
    assert plain(8, coordinate_median(), 0, dropout=0.3) == "", "any row will do: 0.3^8"
    assert plain(2, coordinate_median(), 0, dropout=0.3) == "d", "nobody is left: 0.3^2"
    assert plain(8, mean()._replace(most_byzantine=None), dropout=0.3) == "m"
    masked = functools.partial(plain, 8, trimmed_mean(1), 1, secure="secagg", buffer_size=2)
    assert (masked(leave=0.3), masked(dropout=0.3), masked()) == ("d", "d", "")
    jax.jit(lambda lost: np.testing.assert_equal(plain(8, dropout=lost), "d"))(0.3)
