"""Data sets, and their partition over clients.

- `dataset`: the type `Dataset`; `images`, `tabular` and `text` load data sets.
- `partition`, `label_splits`: which client holds which samples. `stratified`: a part of all labels alike.
- `client_arrays`: stacked arrays of all clients, for `federated_round`.
- `pool`: a population whose samples stay on the host and are fetched by client.
"""

from typing import TYPE_CHECKING

from fedjax_priv._lazy import lazy_names

if TYPE_CHECKING:
    from fedjax_priv.data.client_arrays import federate, stack_clients
    from fedjax_priv.data.dataset import Dataset
    from fedjax_priv.data.images import cifar10, digits, mnist
    from fedjax_priv.data.label_splits import few_labels, lognormal
    from fedjax_priv.data.partition import by_user, dirichlet, gamma_similarity, iid, quantity_skew, shards
    from fedjax_priv.data.pool import Pool, pool_of, prefetch
    from fedjax_priv.data.tabular import adult
    from fedjax_priv.data.text import Text, python_documentation
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = [
    "Dataset", "Pool", "Text", "adult", "by_user", "cifar10", "digits", "dirichlet", "federate", "few_labels",
    "gamma_similarity", "iid", "lognormal", "mnist", "pool_of", "prefetch", "python_documentation", "quantity_skew",
    "shards", "stack_clients",
]  # fmt: skip
