"""What runs in Flower's worker processes: a module, so that only its name and the app's arguments are sent to them."""

# pyright: reportMissingImports=false

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from numpy_training import read, trained


def client_app(folder: str, how: dict) -> ClientApp:
    """Local training of the device that takes part in that place of that round."""
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        del context
        config = message.content["config"]
        params = message.content["arrays"].to_numpy_ndarrays()
        params, samples = trained(read(folder), params, (config["round"], config["place"]), how)
        content = {"arrays": ArrayRecord(params), "metrics": MetricRecord({"num-examples": samples})}
        return Message(RecordDict(content), reply_to=message)

    return app
