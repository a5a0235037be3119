"""pfl: `FederatedAveraging` on a `SimulatedBackend`, in one process or several (`--processes 2`)."""

# pyright: reportMissingImports=false

import os
import socket
import subprocess
import sys

import numpy as np


def processes() -> int:
    return int(sys.argv[sys.argv.index("--processes") + 1]) if "--processes" in sys.argv else 1


def start_others() -> None:
    """pfl joins its processes when it is imported, from these variables."""
    if processes() == 1 or "PFL_WORKER_RANK" in os.environ:
        return
    with socket.socket() as free:
        free.bind(("localhost", 0))
        address = f"localhost:{free.getsockname()[1]}"
    os.environ["PFL_WORKER_ADDRESSES"] = ",".join([address] * processes())
    for rank in range(1, processes()):
        subprocess.Popen(
            [sys.executable, *sys.argv], env={**os.environ, "PFL_WORKER_RANK": str(rank)}, stdout=subprocess.DEVNULL
        )
    os.environ["PFL_WORKER_RANK"] = "0"


start_others()

import torch  # noqa: E402
import torch_models  # noqa: E402
from pfl.aggregate.simulate import SimulatedBackend  # noqa: E402
from pfl.aggregate.weighting import WeightByDatapoints  # noqa: E402
from pfl.algorithm.base import NNAlgorithmParams  # noqa: E402
from pfl.algorithm.federated_averaging import FederatedAveraging  # noqa: E402
from pfl.callback.base import TrainingProcessCallback  # noqa: E402
from pfl.data.dataset import Dataset  # noqa: E402
from pfl.data.federated_dataset import FederatedDataset  # noqa: E402
from pfl.data.sampling import get_user_sampler  # noqa: E402
from pfl.hyperparam.base import NNTrainHyperParams  # noqa: E402
from pfl.metrics import Metrics  # noqa: E402
from pfl.model.pytorch import PyTorchModel  # noqa: E402
from reference import Arrays  # noqa: E402
from work import LEARNING_RATE, Clock, Work, main  # noqa: E402


class _Net(torch.nn.Module):
    """A network with the two methods pfl asks for."""

    def __init__(self, model: str):
        super().__init__()
        self.net = torch_models.network(model)

    def loss(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """Of a batch, the mean."""
        return torch.nn.functional.cross_entropy(self.net(x), y)

    def metrics(self, x: torch.Tensor, y: torch.Tensor) -> dict:
        """None: nothing is evaluated."""
        del x, y
        return {}


class _Rounds(TrainingProcessCallback):
    def __init__(self, clock: Clock):
        self._clock = clock

    def after_central_iteration(self, aggregate_metrics: Metrics, model: PyTorchModel, *, central_iteration: int):
        del aggregate_metrics, model, central_iteration
        self._clock.done()
        return False, Metrics()


def train(work: Work, params: Arrays, x: np.ndarray, y: np.ndarray, rounds: int, clock: Clock) -> Arrays:
    net = _Net(work.model)
    torch_models.load(net, torch_models.to_torch(params))
    model = PyTorchModel(net, torch.optim.SGD, torch.optim.SGD(net.parameters(), lr=1.0))
    images, labels = torch_models.images(x), torch_models.labels(y)
    sampler = get_user_sampler("minimize_reuse", list(range(work.clients)))
    users = FederatedDataset(lambda user: Dataset((images[user], labels[user]), user_id=str(user)), sampler)
    FederatedAveraging().run(
        algorithm_params=NNAlgorithmParams(
            central_num_iterations=rounds,
            evaluation_frequency=rounds + 1,
            train_cohort_size=work.clients,
            val_cohort_size=0,
        ),
        backend=SimulatedBackend(training_data=users, val_data=users, postprocessors=[WeightByDatapoints()]),
        model=model,
        model_train_params=NNTrainHyperParams(
            local_num_epochs=work.epochs, local_learning_rate=LEARNING_RATE, local_batch_size=work.batch
        ),
        callbacks=[_Rounds(clock)],
        send_metrics_to_platform=False,
    )
    return torch_models.to_numpy(list(net.parameters()))


if __name__ == "__main__":
    torch.set_num_threads(max(1, torch.get_num_threads() // processes()))
    main(train, ("pfl", "torch", "numpy"))
