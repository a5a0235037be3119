"""Times the same rounds of FedAvg in several libraries, each in its own pinned environment, in turns.

    python experiments/benchmarks/peers.py --peers fedjax_priv,fedjax,pfl2 --work mlp100 --repeats 5 --out results

A peer whose environment cannot be made, or whose run fails, is a row with the reason.
"""

import argparse
import pathlib
import sys
import time
from typing import Any, NamedTuple

import numpy as np
from environments import NotMade, python_of
from processes import Failed, run_json
from report import write

HERE = pathlib.Path(__file__).parent
REPOSITORY = HERE.parents[1]


class Peer(NamedTuple):
    """How a library is run: `peers/<script>_round.py` with `options`, in the environment of `requirements`."""

    script: str
    requirements: str
    options: tuple[str, ...] = ()
    rounds: int = 3  # timed in each process
    works: tuple[str, ...] = ("mlp100", "mlp1000", "cnn100")


PEERS = {
    "fedjax_priv": Peer("fedjax_priv", "fedjax_priv"),
    "fedjax": Peer("fedjax", "fedjax"),
    "pfl": Peer("pfl", "pfl"),
    "pfl2": Peer("pfl", "pfl", ("--processes", "2")),
    "flower": Peer("flower", "flower", rounds=1),
    "byzfl": Peer("byzfl", "byzfl"),
    "plain_jax_vmap": Peer("plain_jax", "fedjax_priv", ("--form", "vmap")),
    "plain_jax_map": Peer("plain_jax", "fedjax_priv", ("--form", "map")),
    "plain_jax_loop": Peer("plain_jax", "fedjax_priv", ("--form", "loop")),
    "torch_loop": Peer("torch_loop", "torch"),
    "torch_vmap": Peer("torch_vmap", "torch"),
    "numpy": Peer("numpy", "fedjax_priv"),
    "opacus": Peer("opacus", "opacus", works=("dpsgd",)),
    "jax_privacy": Peer("jax_privacy", "jax_privacy", works=("dpsgd",)),
    "plain_jax_dp": Peer("plain_jax_dp", "fedjax_priv", works=("dpsgd",)),
}
WORKS = ("mlp100", "mlp1000", "cnn100", "dpsgd")
MATMUL_SIZE = 2048


def main() -> None:
    args = _arguments()
    args.out.mkdir(parents=True, exist_ok=True)
    pythons = {name: _python(PEERS[name].requirements, args.envs) for name in args.peers}
    pairs = [(work, peer) for work in args.work for peer in args.peers if work in PEERS[peer].works]
    rows = [{"work": work, "peer": peer, "runs": []} for work, peer in pairs]
    matmul = []
    for repeat in range(args.repeats):
        matmul.append(matmul_gflops())
        for row in rows:
            if "failed" not in row:
                _run(row, pythons[row["peer"]], args)
                print(repeat + 1, row["work"], row["peer"], row.get("failed") or row["runs"][-1]["seconds"], flush=True)
                write(args.out, rows, matmul, REPOSITORY)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="The same rounds of FedAvg in several libraries.")
    parser.add_argument("--peers", type=_names(PEERS), default=list(PEERS), help="comma-separated")
    parser.add_argument("--work", type=_names(WORKS), default=list(WORKS), help="comma-separated")
    parser.add_argument("--repeats", type=int, default=5, help="processes of each peer and work")
    parser.add_argument("--timeout", type=float, default=900, help="seconds after which a process is given up")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder for peers.json and peers.md")
    parser.add_argument(
        "--envs", type=pathlib.Path, default=pathlib.Path("~/.cache/fedjax_priv_peers"), help="folder of environments"
    )
    return parser.parse_args()


def _names(allowed: Any) -> Any:
    def parse(text: str) -> list[str]:
        names = text.split(",")
        for name in names:
            if name not in allowed:
                raise argparse.ArgumentTypeError(f"must be some of {', '.join(allowed)}, got {name}")
        return names

    return parse


def _python(requirements: str, folder: pathlib.Path) -> pathlib.Path | NotMade:
    try:
        return python_of(HERE / "requirements" / f"{requirements}.txt", folder.expanduser())
    except NotMade as error:
        print(error, file=sys.stderr)
        return error


def _run(row: dict, python: pathlib.Path | NotMade, args: argparse.Namespace) -> None:
    """Adds a process of one peer to its row, or why there is none."""
    if isinstance(python, NotMade):
        row["failed"] = str(python)
        return
    peer = PEERS[row["peer"]]
    script = (HERE / "peers" / f"{peer.script}_round.py").relative_to(REPOSITORY)
    command = [str(python), str(script), row["work"], "--rounds", str(peer.rounds), *peer.options]
    variables = {"PYTHONPATH": "."} if peer.script == "fedjax_priv" else {}  # this checkout, not a release
    shown = [*(f"{name}={value}" for name, value in variables.items()), *command]
    row["command"] = " ".join(shown).replace(str(args.envs.expanduser()), "$ENVS")
    try:
        row["runs"].append(run_json(command, REPOSITORY, variables, args.timeout))
    except Failed as error:
        row["failed"] = str(error)


def matmul_gflops() -> float:
    """The fastest of five float32 products by NumPy, on all cores."""
    a = np.ones((MATMUL_SIZE, MATMUL_SIZE), np.float32)
    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        np.matmul(a, a)
        seconds.append(time.perf_counter() - start)
    return 2 * MATMUL_SIZE**3 / min(seconds) / 1e9


if __name__ == "__main__":
    main()
