"""What the paper states without a figure: its motivation, Theorem 3 and Corollary 2, each with a row and a panel."""

from typing import NamedTuple

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from experiments.claims import Claim
from experiments.drawing import finish
from experiments.harness import Outcome
from fedjax_priv.analysis.line_styles import COLOURS
from fedjax_priv.theory import sparse_secagg as theory

PRIME = 2**32 - 5


class Config(NamedTuple):
    """Counts and probabilities are exact; the naive protocol is simulated in NumPy."""

    sizes: tuple[int, ...] = (25, 100, 1000, 10_000, 100_000, 1_000_000)
    dropouts: tuple[float, ...] = (0.1, 0.3, 0.45, 0.49)
    alpha: float = 0.1
    naive_users: int = 20
    naive_params: int = 2000
    seed: int = 0


def run(config: Config) -> Outcome:
    survive = [[survives(n, theta) for n in config.sizes] for theta in config.dropouts]
    work = [[server_words(n, config.alpha, 0.3, sparse=False), user_operations(n)] for n in config.sizes]
    wrong = [wrong_part(config, shared=shared) for shared in (False, True)]
    coordinates = {"theta": list(config.dropouts), "N": list(config.sizes), "cost": ["server", "user"],
                   "protocol": ["rand-K under SecAgg's masks", "SparseSecAgg"]}  # fmt: skip
    result = xr.Dataset(
        {"survives": (("theta", "N"), survive), "work": (("N", "cost"), work), "wrong": ("protocol", wrong)},
        coordinates,
    )
    caveats = [
        f"alpha = {config.alpha}; the naive protocol: {config.naive_users} users, d = {config.naive_params:,}, rand-K "
        "with K = alpha d, pairwise masks on what a user sends",
        "server: words of masks it expands for each coordinate, theta = 0.3; user: multiplications that shares take",
    ]
    return Outcome(figure(result), result, claims(config, result), caveats)


def survives(n: int, theta: float) -> float:
    """The probability that a round is recovered."""
    return float(theory.recovery_probability(n, theta))


def server_words(n: int, alpha: float, theta: float, *, sparse: bool) -> float:
    """Mean number the server expands for each coordinate: survivors' own, and pairs of a dropped and a survivor."""
    sent, pair = (float(theory.selection_probability(n, alpha)), alpha / (n - 1)) if sparse else (1.0, 1.0)
    return (1 - theta) * n * sent + theta * (1 - theta) * n * (n - 1) * pair


def user_operations(n: int) -> float:
    """Multiplications of Shamir shares for N users: N values of a polynomial of degree floor(N/2), by Horner's rule."""
    return float(n * (n // 2))


def wrong_part(config: Config, *, shared: bool) -> float:
    """Fraction of the coordinates that anyone sends at which masks do not cancel in the sum.

    Users choose K coordinates each and add SecAgg's pairwise masks there; `shared`: they choose as SparseSecAgg does,
    by pairs, and a mask is added by both users of a pair or by neither.
    """
    rng, n, d = np.random.default_rng(config.seed), config.naive_users, config.naive_params
    total, sent = np.zeros(d, np.uint64), np.zeros((n, d), bool)
    chosen = [rng.choice(d, round(config.alpha * d), replace=False) for _ in range(n)]
    for i in range(n):
        for j in range(i + 1, n):
            mask = rng.integers(PRIME, size=d, dtype=np.uint64)
            both = rng.random(d) < config.alpha / (n - 1)
            for user, sign in ((i, 1), (j, -1)):
                places = np.flatnonzero(both) if shared else chosen[user]
                sent[user, places] = True
                total[places] = (total[places] + (mask[places] if sign > 0 else PRIME - mask[places])) % PRIME
    return float((total[sent.any(0)] != 0).mean())


def claims(config: Config, result: xr.Dataset) -> list[Claim]:
    naive, ours = result.wrong.values
    far = result.survives.isel(N=-1)
    n = np.array(config.sizes, float)
    order = lambda values: float(np.diff(np.log(values[-2:]))[0] / np.diff(np.log(n[-2:]))[0])
    server, user = (order(result.work.sel(cost=cost).values) for cost in ("server", "user"))
    sparse = order([server_words(size, config.alpha, 0.3, sparse=True) for size in config.sizes])
    return [
        Claim(
            "naive-rand-k", "rand-K by each user breaks SecAgg: masks do not cancel", "they do not",
            f"masks are left at {naive:.1%} of the coordinates sent", bool(naive > 0.5), "at more than half of them",
            f"SparseSecAgg: {ours:.1%}", differs="",
        ),
        Claim(
            "pairs-cancel", "SparseSecAgg's do", "they cancel", f"left at {ours:.1%}", bool(ours == 0), "nowhere",
            differs="",
        ),
        Claim(
            "corollary-2", "Corollary 2: every theta < 1/2 is survived as N grows", "with probability -> 1",
            "; ".join(f"theta = {theta:g}: {far.sel(theta=theta).item():.4f}" for theta in config.dropouts),
            bool((far > 0.999).all() and (result.survives.diff("N").isel(N=slice(2, None)) >= -1e-12).all()),
            f"above 0.999 at N = {config.sizes[-1]:,}, and rising",
            f"exact; at N = 100: {', '.join(f'{survives(100, theta):.3f}' for theta in config.dropouts)}", differs="",
        ),
        Claim(
            "theorem-3-server", "Theorem 3: the server computes O(d N^2)", "O(N^2)", f"N^{server:.3f}, linear in d",
            bool(server < 2.01), "the exponent for large N is at most 2",
            f"words of masks with pairwise masks everywhere; SparseSecAgg's own, N^{sparse:.3f}", differs="",
        ),
        Claim(
            "theorem-3-user", "Theorem 3: a user computes O(N + d)", "O(N) at a fixed d", f"N^{user:.3f} for shares",
            bool(user < 1.01), "the exponent for large N is at most 1",
            "N values of a polynomial of degree N/2; N + d is the order of what a user sends (Bonawitz et al. 2017)",
            differs="",
        ),
    ]  # fmt: skip


def figure(result: xr.Dataset) -> Figure:
    picture = Figure(figsize=(12, 4), layout="constrained")
    left, middle, right = picture.subplots(1, 3)
    for colour, theta in zip(COLOURS, result.theta.values, strict=False):
        values = result.survives.sel(theta=theta)
        left.plot(result.N, values, "o-", color=colour, markersize=4, label=f"theta = {theta:g}")
    finish(left, "Corollary 2", xscale="log", xlabel="users N", ylabel="P[enough survivors]")
    for colour, cost in zip(COLOURS, result.cost.values, strict=False):
        middle.plot(result.N, result.work.sel(cost=cost), "o-", color=colour, markersize=4, label=str(cost))
    finish(
        middle, "Theorem 3", xscale="log", yscale="log", xlabel="users N", ylabel="operations, by coordinate or share"
    )
    bars = right.bar(result.protocol.values, 100 * result.wrong, color=COLOURS[:2])
    right.bar_label(bars, fmt="%.3g%%")
    finish(right, "masks left in the sum", ylabel="of the coordinates sent (%)", ymargin=0.15)
    return picture
