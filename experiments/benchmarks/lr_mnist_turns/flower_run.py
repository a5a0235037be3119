"""Flower's run of the card `lr_mnist`: its simulation runtime with `FedAvg`, a client on each core, training in NumPy.

    python flower_run.py FOLDER '{"outputs": "sigmoid", ...}' BEGUN

Any of the supernodes may be drawn: the message says which device it plays and in which order it takes its samples, so
that this run is ours. BEGUN is the time at which the process was started, in seconds since 1970.
"""

# pyright: reportMissingImports=false

import json
import os
import pathlib
import sys
import time
from collections.abc import Iterable
from importlib import metadata

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from numpy_client import client_app
from numpy_training import accuracy, ravelled, read, unravelled


class _Given(FedAvg):
    def __init__(self, how: dict):
        chosen, nodes = how["cohort"], how["supernodes"]
        super().__init__(chosen / nodes, 0.0, min_train_nodes=chosen, min_available_nodes=nodes)
        self.done: list[float] = []  # when the rounds ended

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        drawn = super().configure_train(server_round, arrays, config, grid)
        for place, message in enumerate(drawn):
            told = ConfigRecord({"round": server_round - 1, "place": place})
            content = RecordDict({"arrays": arrays, "config": told})
            yield Message(content, message.metadata.dst_node_id, message.metadata.message_type)

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        replies = list(replies)
        failed = [reply.error.reason for reply in replies if reply.has_error()]
        if failed:
            raise RuntimeError(f"a client failed: {failed[0]}")
        result = super().aggregate_train(server_round, replies)
        self.done.append(time.time())
        return result


def run(folder: str, how: dict, begun: float) -> dict:
    given, server, strategy, found = read(folder), ServerApp(), _Given(how), {}

    def evaluate(server_round: int, arrays: ArrayRecord) -> MetricRecord | None:
        if server_round % how["every"] and server_round != how["rounds"]:
            return None
        percent = accuracy(arrays.to_numpy_ndarrays(), given, how["outputs"])
        return MetricRecord({"accuracy": percent})

    @server.main()
    def main(grid: Grid, context: Context) -> None:
        del context
        initial = ArrayRecord(unravelled(np.array(given.initial)))
        result = strategy.start(grid, initial, num_rounds=how["rounds"], evaluate_fn=evaluate)
        found["seconds"] = time.time() - begun
        found["accuracy"] = [float(at["accuracy"]) for at in result.evaluate_metrics_serverapp.values()]
        found["params"] = result.arrays.to_numpy_ndarrays()

    one_core = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}}
    run_simulation(server, client_app(folder, how), num_supernodes=how["supernodes"], backend_config=one_core)
    np.save(pathlib.Path(folder, how["save"]), ravelled(found.pop("params")))
    first, *rest = strategy.done
    warm = (rest[-1] - first) / len(rest)
    return found | {"round_seconds": warm, "start_seconds": found["seconds"] - warm * how["rounds"]}


if __name__ == "__main__":
    os.environ |= {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0"}
    made = run(sys.argv[1], json.loads(sys.argv[2]), float(sys.argv[3]))
    versions = {name: metadata.version(name) for name in ("flwr", "ray", "numpy")}
    print("\n" + json.dumps(made | {"versions": versions}), flush=True)
