"""What runs in Flower's worker processes: a module, so that only its name and the app's arguments are sent to them."""

# pyright: reportMissingImports=false

import functools
import pathlib

import numpy as np
import torch_models
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from work import LEARNING_RATE, Work


@functools.cache
def samples(folder: str) -> tuple[np.ndarray, np.ndarray]:
    """All clients' samples, mapped into a worker once; a client touches its own."""
    x, y = (np.load(pathlib.Path(folder) / f"{name}.npy", mmap_mode="c") for name in "xy")
    return x, y


def client_app(work: Work, folder: str) -> ClientApp:
    """Local training of the client whose number is that of its partition."""
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        x, y = (array[int(context.node_config["partition-id"])] for array in samples(folder))
        net = torch_models.network(work.model)
        net.load_state_dict(message.content["arrays"].to_torch_state_dict())
        data = torch_models.images(x), torch_models.labels(y)
        torch_models.descend(net, *data, batch=work.batch, epochs=work.epochs, learning_rate=LEARNING_RATE)
        content = {"arrays": ArrayRecord(net.state_dict()), "metrics": MetricRecord({"num-examples": len(y)})}
        return Message(RecordDict(content), reply_to=message)

    return app
