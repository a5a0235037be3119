import itertools
import math
from fractions import Fraction
from inspect import unwrap

import numpy as np
import pytest
from refusals import refused
from scipy import stats

from fedjax_priv.theory import secagg_plus as theory


def circle_graph(order, neighbours):
    """Whom each user is joined to, of users in this order on the circle."""
    n = len(order)
    near = [s * t for t in range(1, neighbours // 2 + 1) for s in (1, -1)]
    return {order[i]: {order[(i + step) % n] for step in near} for i in range(n)}


def apart(n, neighbours, dropout, adversarial):
    """The threshold does not matter."""
    return theory.disconnected_probability(theory.Graph(n, neighbours, 1, dropout, adversarial))


def is_connected(graph, members):
    """By breadth-first search."""
    if not members:
        return True
    seen, frontier = set(), {next(iter(members))}
    while frontier:
        seen |= frontier
        frontier = set().union(*(graph[i] for i in frontier)) & members - seen
    return seen == members


@pytest.mark.parametrize("neighbours", [2, 4, 6])
def test_disconnection_of_every_small_graph(neighbours):
    """All places of 2 colluders among 8 and all sets of lost users."""
    n, colluders, dropout = 8, 2, 0.4
    graph = circle_graph(range(n), neighbours)
    total = 0.0
    for bad in itertools.combinations(range(n), colluders):
        honest = sorted(set(range(n)) - set(bad))
        for lost in itertools.product([False, True], repeat=len(honest)):
            members = {i for i, gone in zip(honest, lost, strict=True) if not gone}
            total += (not is_connected(graph, members)) * dropout ** sum(lost) * (1 - dropout) ** (6 - sum(lost))
    expected = total / math.comb(n, colluders)
    found = apart(n, neighbours, dropout, colluders / n)
    assert found == pytest.approx(expected, rel=1e-12, abs=1e-300)
    assert found > 0


def gaps_of_compositions(n, neighbours, dropout, colluders):
    """With h survivors the gaps are a uniform composition; two of them are large: inclusion-exclusion in integers."""
    run, total = neighbours // 2, 0.0
    for h in range(1, n - colluders + 1):
        large = sum(
            (-1) ** j * (j - 1) * math.comb(h, j) * math.comb(n - 1 - j * run, h - 1)
            for j in range(2, (n - h) // run + 1)
        )
        total += stats.binom.pmf(h, n - colluders, 1 - dropout) * float(Fraction(large, math.comb(n - 1, h - 1)))
    return total


@pytest.mark.parametrize(
    ("n", "neighbours", "dropout", "colluders"),
    [(200, 40, 0.1, 20), (200, 10, 0.3, 67), (101, 20, 0.0, 45), (60, 4, 0.4, 18), (150, 8, 0.5, 0)],
)
def test_disconnection_averages_uniform_compositions(n, neighbours, dropout, colluders):
    expected = gaps_of_compositions(n, neighbours, dropout, colluders)
    found = apart(n, neighbours, dropout, colluders / n)
    assert found == pytest.approx(expected, rel=1e-8)


def test_disconnection_far_in_the_tail_and_beyond_doubt():
    assert 0 < apart(4000, 80, 0.1, 0.2) < 1e-30
    assert apart(400, 4, 0.3, 0.3) == 1
    assert gaps_of_compositions(300, 2, 0.0345, 0) > 0.999  # ten breaks expected
    assert apart(50, 10, 0.0, 0.0) == 0
    assert apart(11, 10, 0.4, 0.4) == 0  # complete


@pytest.fixture(scope="module")
def rounds():
    """Of 40 users with 6 neighbours, threshold 4, 10 colluders, a quarter lost: what fails in each."""
    rng, n, k, t, colluders, dropout = np.random.default_rng(7), 40, 6, 4, 10, 0.25
    seen = []
    for _ in range(4000):
        graph = circle_graph(rng.permutation(n).tolist(), k)
        alive = set(np.flatnonzero(rng.random(n) >= dropout).tolist())
        unrecoverable = sum(len((graph[i] | {i}) & alive) < t for i in range(n))
        exposed = sum(len(graph[i] & set(range(colluders))) >= t for i in range(colluders, n))
        seen.append((unrecoverable, exposed, not is_connected(graph, alive - set(range(colluders)))))
    return np.array(seen)


def agrees(samples, expected):
    return abs(samples.mean() - expected) <= 5 * samples.std() / np.sqrt(len(samples))


GRAPH = theory.Graph(40, 6, 4, 0.25, 0.25)
HIGHER = GRAPH._replace(threshold=5)


def test_protocol_on_random_graphs(rounds):
    """Expected numbers of users a union bound adds up, and the probability of falling apart."""
    unrecoverable, exposed, disconnected = rounds.T
    assert agrees(unrecoverable, 40 * theory.user_unrecoverable_probability(GRAPH))
    assert not agrees(unrecoverable, 40 * theory.user_unrecoverable_probability(HIGHER))
    assert agrees(exposed, 30 * theory.user_exposed_probability(GRAPH))
    assert not agrees(exposed, 30 * theory.user_exposed_probability(HIGHER))
    assert not agrees(exposed, 30 * stats.binom.sf(3, 6, 0.25))  # colluders are drawn without replacement
    assert agrees(disconnected, theory.disconnected_probability(GRAPH))
    assert not agrees(disconnected, theory.disconnected_probability(GRAPH._replace(adversarial=0.0)))


def test_union_bound_is_above_what_happens(rounds):
    happened = rounds.astype(bool)
    kinds = theory.unrecoverable_probability, theory.exposed_probability, theory.disconnected_probability
    parts = [kind(GRAPH) for kind in kinds]
    error = 5 * happened.std(0) / np.sqrt(len(happened))
    assert (happened.mean(0) <= np.array(parts) + error).all()
    assert parts[0] == min(1, 40 * theory.user_unrecoverable_probability(GRAPH))
    assert parts[1] == min(1, 30 * theory.user_exposed_probability(GRAPH))
    assert theory.graph_failure_probability(GRAPH) == min(1, sum(parts))
    many = theory.Graph(1000, 80, 41, 0.1, 0.1)
    sparse = theory.graph_failure_probability(many)
    assert 0 < sparse < 1e-4
    assert sparse == pytest.approx(sum(kind(many) for kind in kinds[:2]))


def test_one_user_is_exact():
    for threshold in (1, 3, 7):
        graph = theory.Graph(30, 6, threshold, 0.3, 0.4)
        online = theory.user_unrecoverable_probability(graph)
        assert online == pytest.approx(stats.binom.cdf(threshold - 1, 7, 0.7), rel=1e-12)
        opened = theory.user_exposed_probability(graph)
        assert opened == pytest.approx(stats.hypergeom.sf(threshold - 1, 29, 12, 6), rel=1e-11, abs=0)
    assert theory.user_unrecoverable_probability(GRAPH._replace(dropout=0.0)) == 0
    far = theory.user_exposed_probability(theory.Graph(10**5, 400, 300, 0.0, 0.2))
    assert far == pytest.approx(stats.hypergeom.sf(299, 10**5 - 1, 20_000, 400), rel=1e-8)
    assert far < 1e-100


PUBLISHED = [
    (10**5, 0.33, 0.33, 480, 251), (10**6, 0.33, 0.33, 518, 270), (10**5, 0.05, 0.33, 96, 32),
    (10**6, 0.05, 0.33, 102, 34), (10**5, 0.33, 0.05, 102, 77), (10**6, 0.33, 0.05, 110, 83),
]  # fmt: skip


@pytest.mark.parametrize(("n", "adversarial", "dropout", "neighbours", "threshold"), PUBLISHED)
def test_published_graphs(n, adversarial, dropout, neighbours, threshold):
    """Degrees and thresholds of google-parfait/federated-compute, graph_parameter_finder_test.cc, curious server.

    Theirs are the first k whose graph falls apart, and the first t at which some of the N users' secrets are opened,
    with probability below 2**-41 each, if also some secret is lost with at most 2**-20. They have k holders rather
    than k + 1, and a fixed number of lost users, so that a k slightly below theirs is already enough here.
    """
    everyone = n / (n - round(adversarial * n))
    graph = lambda k, t: theory.Graph(n, k, t, dropout, adversarial)
    exposed = lambda k, t: everyone * theory.exposed_probability(graph(k, t)) > 2**-41
    assert exposed(neighbours, threshold - 1)
    assert not exposed(neighbours, threshold)

    def enough(k):
        of = graph(k, next(t for t in range(1, k + 2) if not exposed(k, t)))
        return theory.disconnected_probability(of) <= 2**-41 and theory.unrecoverable_probability(of) <= 2**-20

    assert enough(neighbours)
    assert not enough(neighbours - 8)


def test_smallest_neighbours():
    k = theory.smallest_neighbours(1000, 0.1, 0.1, failure=1e-6)
    failure = lambda k: theory.graph_failure_probability(theory.Graph(1000, k, k // 2 + 1, 0.1, 0.1))
    assert failure(k) < 1e-6
    assert all(failure(fewer) >= 1e-6 for fewer in range(2, k, 2))
    assert theory.smallest_neighbours(1000, 0.1, 0.1, failure=failure(k)) == k + 2
    assert k < theory.smallest_neighbours(1000, 0.1, 0.1) < theory.smallest_neighbours(1000, 0.2, 0.1)
    with pytest.raises(ValueError, match="^failure must be above 0.00155, .* number of neighbours < 100, got 9.09"):
        theory.smallest_neighbours(100, 0.3, 1 / 3)


BAD = (
    ((2, 2, 2, 0.1, 0.1), "num_clients must be an integer >= 3, got 2"),
    ((9, 3, 2, 0.1, 0.1), "neighbours must be even and below num_clients = 9, got 3"),
    ((8, 8, 2, 0.1, 0.1), "neighbours must be even and below num_clients = 8, got 8"),
    ((9, 4, 0, 0.1, 0.1), "threshold must be an integer >= 1, got 0"),
    ((9, 4, 6, 0.1, 0.1), r"threshold must be at most neighbours \+ 1 = 5, got 6"),
    ((9, 4, 3, 1.0, 0.1), r"dropout must be in \[0, 1\), got 1.0"),
    ((9, 4, 3, 0.1, 0.5), r"adversarial must be in \[0, 0.5\) \(a minority of the users\), got 0.5"),
)
PROBABILITIES = (
    theory.graph_failure_probability, theory.user_unrecoverable_probability, theory.user_exposed_probability,
    theory.disconnected_probability,
)  # fmt: skip
test_bad_sizes = refused(
    (0.5, "num_clients must be an integer >= 1, got 0.5"),
    (np.array([9, 20]), "num_clients must be one integer >= 1"),
    by=lambda n: unwrap(theory.smallest_neighbours)(n, 0.1, 0.1),
)
test_bad_arguments = refused(
    *(((function, arguments), message) for function in PROBABILITIES for arguments, message in BAD),
    by=lambda given: given[0](theory.Graph(*given[1])),
)
