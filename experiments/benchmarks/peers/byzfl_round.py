"""ByzFL: its `Client` and `Server`, with the average as aggregator."""

# pyright: reportMissingImports=false

import functools

import byzfl.fed_framework.models
import numpy as np
import torch_models
from byzfl import Client, Server
from reference import Arrays
from torch.utils.data import DataLoader, TensorDataset
from work import LEARNING_RATE, Clock, Work, main


def train(work: Work, params: Arrays, x: np.ndarray, y: np.ndarray, rounds: int, clock: Clock) -> Arrays:
    byzfl.fed_framework.models.benchmark = functools.partial(torch_models.network, work.model)  # found by its name
    images, labels = torch_models.images(x), torch_models.labels(y)
    loaders = [DataLoader(TensorDataset(*one), batch_size=work.batch) for one in zip(images, labels, strict=True)]
    clients = [
        Client(
            _OPTIMIZER
            | {
                "loss_name": "CrossEntropyLoss",
                "LabelFlipping": False,
                "nb_labels": 10,
                "momentum": 0.0,
                "training_dataloader": loader,
                "store_per_client_metrics": False,
            }
        )
        for loader in loaders
    ]
    server = Server(
        _OPTIMIZER
        | {"aggregator_info": {"name": "Average", "parameters": {}}, "pre_agg_list": [], "test_loader": loaders[0]}
    )
    torch_models.load(server.model, torch_models.to_torch(params))
    for _ in range(rounds):
        for client in clients:
            client.set_model_state(server.get_dict_parameters())
            client.compute_model_update(work.epochs * work.samples // work.batch)
        server.update_model_with_weights([client.get_flat_parameters() for client in clients])
        clock.done()
    return torch_models.to_numpy(list(server.model.parameters()))


_OPTIMIZER = {
    "model_name": "benchmark",
    "device": "cpu",
    "optimizer_name": "SGD",
    "learning_rate": LEARNING_RATE,
    "weight_decay": 0.0,
    "milestones": [],
    "learning_rate_decay": 1.0,
}

if __name__ == "__main__":
    main(train, ("byzfl", "torch", "numpy"))
