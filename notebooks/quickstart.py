# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Quickstart
#
# This notebook runs a round by hand, then a whole run, a sweep and a plot. It needs only the installed package; the
# data are the handwritten digits that come with scikit-learn.

# %%
# %matplotlib inline
import jax
import matplotlib.pyplot as plt
import numpy as np

from fedjax_priv import clients, data, layers, losses, metrics, models, simulate, sweep, systems
from fedjax_priv.analysis import plots

# %% [markdown]
# ## The parts
#
# You need three parts: a data set spread over 20 clients, each with a different mix of classes; a small network; and
# what a client does in a round. Clients are stacked along the first axis of every array.

# %%
digits = data.digits()
train = data.federate(digits, num_clients=20, partition="dirichlet", concentration=1.0)
model = models.mlp((8, 8, 1), 10, hidden=(32,))
local = clients.local_sgd(losses.softmax_cross_entropy(model), learning_rate=0.1, batch_size=10, num_epochs=1)
evaluate = metrics.accuracy(model, digits.x_test, digits.y_test)
key = jax.random.key(0)
print("samples of each client:", train.count)

# %% [markdown]
# ## One round by hand
#
# A system is a pair of pure functions, `init` and `step`. This one is secure aggregation (Bonawitz et al. 2017).
# Clients agree on masks and share their keys; a fifth of the clients are lost; survivors disclose the shares that the
# server needs to remove the masks that no longer cancel. All of this is one jitted function.

# %%
secagg = systems.secagg(local, num_clients=20, dropout=0.2)
state = secagg.init(key, model.init(key), train)
step = jax.jit(secagg.step)
state, info = step(key, state, train)
counted = np.asarray(info.counted)
print(f"{counted.sum()} of {counted.size} uploads counted, status {int(info.status)}, loss {info.loss.mean():.3f}")
for phase, link in info.bits.items():
    print(f"{phase:>10}: {link.up.mean() / 8:8,.0f} bytes up, {link.down.mean() / 8:8,.0f} down, by client")

# %% [markdown]
# The masked sum is exact. With the same key, a system that adds the same quantized updates in the clear gives the same
# model: bit for bit if the updates are the same. (In another program XLA may round local training differently.)

# %%
clear = systems.secagg(local, num_clients=20, dropout=0.2, secure_sum=layers.plain_field())
other, _ = jax.jit(clear.step)(key, clear.init(key, model.init(key), train), train)
far = jax.tree.map(lambda a, b: np.abs(a - b).max(), state.params, other.params)
assert max(jax.tree.leaves(far)) < 1e-5
print(f"masked and in the clear: {max(jax.tree.leaves(far)):.1g} apart")

# %% [markdown]
# ## A run
#
# `simulate` runs that step in a loop, with evaluations, and returns an `xarray.Dataset`.

# %%
how = dict(key=key, params=model.init(key), data=train, rounds=20, evaluate=evaluate, every=2, progress=False)
results = {
    "FedAvg": simulate(systems.fedavg(local), **how),
    "SecAgg, a fifth lost": simulate(secagg, **how),
}
for name, result in results.items():
    sent = result.up_bytes.sum("phase").mean().item()
    print(f"{name}: accuracy {result.accuracy[-1].item():.3f}, {sent:,.0f} bytes up by client and round")
assert results["FedAvg"].accuracy[-1] > 0.7

# %% [markdown]
# The figure splits the cost of a round by the phases of the protocol.

# %%
plots.learning_curves(results)

# %% [markdown]
# ## A sweep
#
# Numeric axes and seeds become one `vmap`, so all runs below are one compiled program.


# %%
def make(learning_rate):
    loss = losses.softmax_cross_entropy(model)
    return systems.fedavg(clients.local_sgd(loss, learning_rate=learning_rate, batch_size=10, num_epochs=1))


axes = {"learning_rate": [0.01, 0.03, 0.1, 0.3, 1.0], "seed": range(4)}
grid = sweep(make, axes, key, model.init, train, rounds=10, evaluate=evaluate, every=10, progress=False)
last = grid.accuracy.isel(evaluation=-1)
print(f"{grid.attrs['runs']} runs, {grid.attrs['programs']} program")
assert grid.attrs["programs"] == 1

# %%
figure, axis = plt.subplots(figsize=(5, 3.2), layout="constrained")
axis.errorbar(last.learning_rate, last.mean("seed"), last.std("seed"), marker="o", capsize=3)
axis.set(xscale="log", xlabel="learning rate", ylabel="accuracy after 10 rounds", title="mean and std over seeds")
axis.grid(alpha=0.3)

# %% [markdown]
# Next: `write_your_own_layer` builds a compressor, `audit_a_claim` tests a privacy claim, and each paper has a
# notebook.
