# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Which privacy do I get?
#
# An eps has a meaning only if you say what is hidden (a sample, or all data of a client), from whom, between which
# inputs, and over how many rounds. This notebook trains one model under four private systems, reads the ledger of each
# run, and compares accuracies at equal proved eps.

# %%
# %matplotlib inline
import jax
import matplotlib.pyplot as plt
import numpy as np

from fedjax_priv import clients, data, losses, metrics, models, server_noise, simulate, systems
from fedjax_priv.ledger import epsilon_by_round, ledger, noise_for, planned, show, worst
from fedjax_priv.theory import correlated_noise, gaussian
from fedjax_priv.theory.sampled_gaussian import Round, epsilon

key = jax.random.key(0)
digits = data.digits()
train = data.federate(digits, num_clients=100)
model = models.softmax_regression((8, 8, 1), 10)
params = model.init(key)
d, rounds, delta = models.num_params(params), 20, 1e-3
local = clients.local_sgd(losses.softmax_cross_entropy(model), learning_rate=0.5, batch_size=7, num_epochs=1)
evaluate = metrics.accuracy(model, digits.x_test, digits.y_test)

# %% [markdown]
# ## The server adds the noise
#
# In DP-FedAvg each client clips its update, and the server adds Gaussian noise to the sum. Clients come by their own
# coins. The ledger has a row for each adversary: an outsider, who sees the models; a client of the round, who sees who
# takes part, so that sampling does not help; and the server, from which nothing protects.

# %%
common = dict(num_clients=100, clip=1.0)
by_coins = systems.dp_fedavg(local, noise_multiplier=1.0, sampling_rate=0.2, **common)
run = simulate(by_coins, key, params, train, rounds=rounds, evaluate=evaluate, every=rounds)
entries = ledger(by_coins, run, train, delta=delta)
show(entries)
assert entries[-1].proved.epsilon is None  # the server

# %% [markdown]
# ## Eps by round
#
# With coins eps is far below that of the same noise without sampling. Cohorts of fixed size have another figure: a
# client that takes part replaces another one, so the sum moves up to twice as far.

# %%
so_far = epsilon_by_round(by_coins, run, train, delta=delta)
unsampled = [gaussian.epsilon(delta, np.sqrt(t)) for t in so_far["round"].values]
fixed = [epsilon(delta, [(Round(1.0, 0.2, "fixed size"), int(t))]) for t in so_far["round"].values]
figure, axes = plt.subplots(figsize=(5, 3.2), layout="constrained")
axes.plot(so_far["round"], unsampled, label="who takes part is seen")
axes.plot(so_far["round"], fixed, label="cohorts of fixed size")
axes.plot(so_far["round"], so_far.sel(adversary="outsider, add/remove"), label="coins")
axes.set(xlabel="round", ylabel=f"eps at delta = {delta:g}", ylim=(0, None))
axes.legend(frameon=False)
plt.show()
assert so_far.sel(adversary="outsider, add/remove")[-1] < fixed[-1]

# %% [markdown]
# ## What secure aggregation adds, and what it does not
#
# A secure sum without noise has no eps: somebody who knows all other updates reads the last one from the sum. But in a
# secure sum the noise of many clients adds up. Here each client adds a hundredth of the variance.

# %%
secret = systems.secagg(local, num_clients=100, elide=True)
two_rounds = planned(secret, key, params, train, 2)
assert all(entry.proved.epsilon is None for entry in ledger(secret, two_rounds, train, delta=delta))
many = lambda z: systems.distributed_dp_fedavg(
    local, noise_multiplier=z, num_params=d, shares=100, elide=True, **common
)
together = simulate(many(1.0), key, params, train, rounds=2)
print(
    f"two rounds, z = 1, against the server: eps {worst(ledger(many(1.0), together, train, delta=delta)[0].proved):.3g}"
)

# %% [markdown]
# ## Noise that cancels over rounds
#
# Cohorts that take turns (each client every fifth round) allow noise that is correlated over rounds: what one round
# adds is partly subtracted by later ones. At the same eps the model has less of it.

# %%
column = correlated_noise.optimal_banded(rounds, 5)
turns = correlated_noise.Schedule(rounds, rounds // 5, 5)
for name, first in (("independent", [1.0]), ("banded", column)):
    error = correlated_noise.toeplitz_error(first, rounds) * correlated_noise.toeplitz_sensitivity(first, turns)
    print(f"{name:>12}: {correlated_noise.root_mean_square(error):.3f} times the noise of one round at equal eps")

# %% [markdown]
# ## Equal eps, one problem
#
# `noise_for` searches the noise at which the ledger of each system has this eps. All four hide a client, whose data may
# be replaced by anything: the first two from an outsider, the last two from the server as well.

# %%
makers = {
    "server, coins": lambda z: systems.dp_fedavg(local, noise_multiplier=z, sampling_rate=0.2, **common),
    "server, banded": lambda z: systems.dp_fedavg(
        local, noise_multiplier=z, cohort_size=20, separation=5, noise=server_noise.banded(column), **common
    ),
    "clients, in the sum": many,
    "clients, on the air": lambda v: systems.wireless(
        local, clip=1.0, noise_variance=v, receiver_noise=0.0, participation=1.0
    ),
}
replaced = lambda entries: next(e for e in entries if e.neighbours == "replacement" and e.proved.epsilon is not None)
targets, found = (4.0, 16.0), {}
for name, make in makers.items():
    for target in targets:
        noise = noise_for(make, key, params, train, target, delta=delta, rounds=rounds, chosen=replaced)
        result = simulate(make(noise), key, params, train, rounds=rounds, evaluate=evaluate, every=rounds)
        proved = worst(replaced(ledger(make(noise), result, train, delta=delta)).proved)
        assert 0.999 * target <= proved <= target
        found[name, target] = float(result.accuracy[-1])
        print(f"{name:>20}, eps {proved:.3f}: accuracy {found[name, target]:.3f}")

# %% [markdown]
# One seed shows the order of magnitude and no more; `experiments/private_training/equal_epsilon.py` has several seeds
# and their intervals.

# %%
assert all(found[name, 16.0] > found[name, 4.0] - 0.05 for name in makers)
