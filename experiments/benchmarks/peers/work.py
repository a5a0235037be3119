"""What every peer is given, how it is timed, and how it is checked: NumPy and the standard library only."""

import argparse
import json
import pathlib
import sys
import time
import zlib
from collections.abc import Callable
from importlib import metadata
from typing import NamedTuple

import numpy as np
import reference
from reference import Arrays

LEARNING_RATE = 0.05
TOLERANCE = 1e-4
"""Largest difference of a parameter from the float64 reference, after two rounds of the small check."""


WARM = 2
"""Rounds that are not timed: the first compiles, and in JAX the second may too, as its state lies elsewhere."""


class Work(NamedTuple):
    """Rounds of FedAvg: each client passes `epochs` times over its own samples, in batches, by plain SGD.

    With `clip` it is instead one step of DP-SGD of one client, on all its samples: gradients of samples are clipped to
    that norm and averaged, with Gaussian noise of standard deviation `noise * clip` added to their sum.
    """

    model: str  # a name in reference.MODELS
    clients: int
    samples: int  # of each client
    batch: int
    epochs: int = 1
    clip: float = 0.0
    noise: float = 0.0

    @property
    def flops(self) -> float:
        """Of a round: three forward passes for each sample trained on, the usual convention."""
        return 6.0 * reference.MODELS[self.model].macs * self.clients * self.epochs * self.samples


WORKS = {
    "mlp100": Work("mlp", clients=100, samples=300, batch=20),
    "mlp1000": Work("mlp", clients=1000, samples=60, batch=20),
    "cnn100": Work("cnn", clients=100, samples=60, batch=20),
    "dpsgd": Work("mlp", clients=1, samples=500, batch=500, clip=1.0, noise=1.0),
}


class Clock:
    """Seconds of each round, and the most memory in use after one, of this process and those it started."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.mib = 0.0
        self._start = time.perf_counter()

    def done(self) -> None:
        """A round is over: its result has been computed, not only asked for."""
        self.seconds.append(time.perf_counter() - self._start)
        self.mib = max(self.mib, peak_mib())
        self._start = time.perf_counter()


Train = Callable[[Work, Arrays, np.ndarray, np.ndarray, int, Clock], Arrays]
"""`(work, params, x [n, m, 28, 28, 1], y [n, m], rounds, clock) -> params`, with `clock.done()` after each round."""


def data(work: Work) -> tuple[np.ndarray, np.ndarray]:
    """Random images, float32 in [0, 1), and labels, int32: the same in every process."""
    rng, shape = np.random.default_rng(0), (work.clients, work.samples)
    return rng.random((*shape, 28, 28, 1), np.float32), rng.integers(0, 10, shape, np.int32)


def main(train: Train, packages: tuple[str, ...]) -> None:
    """Checks `train` against the reference, times it on the work named on the command line, prints one line of JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("work", choices=WORKS)
    parser.add_argument("--rounds", type=int, default=5, help="rounds to time, after WARM others")
    args, _ = parser.parse_known_args()
    work, start = WORKS[args.work], time.perf_counter()
    error = _error(train, work)
    if not error < TOLERANCE:
        sys.exit(f"not the same work: a parameter is {error:.1e} from the float64 reference after two rounds")
    (x, y), params, clock = data(work), reference.initial(work.model), Clock()
    train(work, params, x, y, WARM + args.rounds, clock)
    result = {
        "seconds": clock.seconds[WARM:],
        "start_seconds": time.perf_counter() - start - sum(clock.seconds[WARM:]),
        "mib": clock.mib,
        "flops": work.flops,
        "error": error,
        "input": zlib.crc32(y.data, zlib.crc32(x.data)),
        "versions": {name: metadata.version(name) for name in packages},
    }
    print("\n" + json.dumps(result), flush=True)


def _error(train: Train, work: Work) -> float:
    """Two rounds of four clients, three steps each, on all of a client's samples: then shuffling changes nothing.

    DP-SGD is two steps without noise.
    """
    small, step = Work(work.model, clients=4, samples=8, batch=8, epochs=3), reference.fedavg_round
    if work.clip:
        small, step = work._replace(samples=8, batch=8, noise=0.0), reference.dp_step
    (x, y), params = data(small), reference.initial(work.model)
    expected = [p.astype(np.float64) for p in params]
    for _ in range(2):
        expected = step(small, expected, x.astype(np.float64), y, LEARNING_RATE)
    got = train(small, params, x, y, 2, Clock())
    return max(float(np.abs(a - b).max()) for a, b in zip(got, expected, strict=True))


def peak_mib() -> float:
    """Sum of the peak resident memories of this process and its descendants that are alive (Linux)."""
    parent, peak = {}, {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            lines = (folder / "status").read_text().splitlines()
        except OSError:  # it has just ended
            continue
        fields = dict(line.split(":", 1) for line in lines if ":" in line)
        parent[int(folder.name)] = int(fields["PPid"])
        peak[int(folder.name)] = float(fields.get("VmHWM", "0 kB").split()[0]) / 1024

    def ours(pid: int) -> bool:
        return pid == _SELF or (pid in parent and ours(parent[pid]))

    return sum(mib for pid, mib in peak.items() if ours(pid))


_SELF = int(pathlib.Path("/proc/self").readlink().name)
