"""Flower: its simulation runtime with `FedAvg`, as many clients at a time as there are cores."""

# pyright: reportMissingImports=false

import os
import pathlib
import tempfile
from collections.abc import Iterable

import numpy as np
import torch_models
from flower_client import client_app
from flwr.app import ArrayRecord, Context, Message, MetricRecord
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from reference import Arrays
from work import Clock, Work, main


class _Timed(FedAvg):
    def __init__(self, clock: Clock, clients: int):
        super().__init__(fraction_evaluate=0.0, min_train_nodes=clients, min_available_nodes=clients)
        self._clock = clock

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        result = super().aggregate_train(server_round, replies)
        self._clock.done()
        return result


def train(work: Work, params: Arrays, x: np.ndarray, y: np.ndarray, rounds: int, clock: Clock) -> Arrays:
    net, server = torch_models.network(work.model), ServerApp()
    torch_models.load(net, torch_models.to_torch(params))

    @server.main()
    def run(grid: Grid, context: Context) -> None:
        del context
        result = _Timed(clock, work.clients).start(grid, ArrayRecord(net.state_dict()), num_rounds=rounds)
        net.load_state_dict(result.arrays.to_torch_state_dict())

    with tempfile.TemporaryDirectory() as folder:
        np.save(pathlib.Path(folder, "x.npy"), x)
        np.save(pathlib.Path(folder, "y.npy"), y)
        one_core = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}}
        run_simulation(server, client_app(work, folder), num_supernodes=work.clients, backend_config=one_core)
    return torch_models.to_numpy(list(net.parameters()))


if __name__ == "__main__":
    os.environ["PYTHONPATH"] = str(pathlib.Path(__file__).parent)  # workers import flower_client
    main(train, ("flwr", "ray", "torch", "numpy"))
