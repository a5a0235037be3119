# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Write your own layer
#
# A stack of layers decides what happens to an update between client and server. Each layer has a client half and a
# server half. This notebook writes a compressor in twenty lines, checks the laws it must keep, breaks them in three
# ways, and uses the compressor in a system.

# %%
# %matplotlib inline
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from fedjax_priv import clients, data, federated_round, losses, metrics, models, simulate
from fedjax_priv.aggregators import mean
from fedjax_priv.analysis import learning_curves
from fedjax_priv.audit import sending
from fedjax_priv.base import ClientData, Sent
from fedjax_priv.channels import erasure
from fedjax_priv.keys import per_client
from fedjax_priv.layers import fixed_point_sum, plain, scale, stack, stateless
from fedjax_priv.layers.group_sums import message_bits
from fedjax_priv.layers.in_the_clear import range_status
from fedjax_priv.testing import Case, check_layer

# %% [markdown]
# ## The compressor
#
# Each client sends one float, its largest magnitude divided by 127, and one byte for each coordinate. The byte says
# which multiple of that float is sent: the one below the value or the one above, at random, so that the mean is the
# value. (This is QSGD, Alistarh et al. 2017, with the largest magnitude as the norm.)
#
# $$ s = \max_l |x_l| / 127, \qquad Q(x)_l = s \, (\lfloor x_l / s \rfloor + B_l), \qquad
#    \Pr[B_l = 1] = x_l / s - \lfloor x_l / s \rfloor, \qquad \mathbb{E}\, Q(x) = x. $$
#
# The layer is `stateless`: it has no keys, no memory and no messages other than the upload. `encode` is the client
# half. `sent` says what the message costs, and sets a status bit if a value is not finite, because nothing can raise
# inside `jit`. `combine` says how uploads become the rows the server holds: `lift` turns a block of uploads into a
# summand, and summands are added in fixed point, which gives the same bits in any order.


# %%
class Bytes(NamedTuple):
    """What travels."""

    scale: jax.Array  # float32 [b]
    code: jax.Array  # int8 [b, d]


def by_number(key, client, d):
    """Uniform draws `[b, d]`, of each client its own."""
    return per_client(lambda key: jax.random.uniform(key, (d,)), key, client)


def int8(num_groups=1, uniform=by_number):
    total = fixed_point_sum(num_groups)

    def encode(key, x, cohort):
        scale = jnp.abs(x).max(1) / 127
        steps = x / jnp.where(scale > 0, scale, 1.0)[:, None]
        low = jnp.floor(steps)
        up = uniform(key, cohort.client, x.shape[1]) < steps - low
        return Bytes(scale, jnp.clip(low + up, -127, 127).astype(jnp.int8))

    def lift(y, alive, group):
        return total.lift(y.scale[:, None] * y.code, alive, group)

    def sent(x, y):
        return Sent(message_bits(y, len(x)), refused=range_status(x, limit=2.0**15))

    return stateless(encode, sent=sent, combine=total._replace(lift=lift))


# %% [markdown]
# ## The laws
#
# `fedjax_priv.testing` has the checks that all layers of the package pass. A `Case` consists of a layer, what its sum
# must be, and how far off a summand may be: here one step of the largest scale.
#
# - **Round trip**: whoever is lost, what the server decodes is the survivors' sum.
# - **Draws**: a client sends the same whoever else there is.
# - **Bits**: the bits that are reported are those of the message.
# - **Unbiased**: the mean over draws is the sum, within five standard errors.


# %%
def case_of(layer, **how):
    case = Case(layer, reference=lambda x, weight: x.sum(0), **how)
    return case._replace(error=np.abs(case.updates).max() / 127)


check_layer(case_of(int8()), unbiased=True)
check_layer(case_of(int8(num_groups=2), num_groups=2))
print("int8 keeps the laws")

# %% [markdown]
# A check that cannot fail is worth nothing. Here are three mistakes, and the checks catch each:
#
# 1. drawing for the rows of a block instead of for clients: with another block size, or one client less, everybody else
#    sends something different;
# 2. rounding to the nearest: the error no longer averages out;
# 3. not counting the message in the reported bits.


# %%
def by_place(key, client, d):
    return jax.random.uniform(key, (len(client), d))


def to_nearest(key, client, d):
    return jnp.full((len(client), d), 0.5)


def unreported(layer):
    def encode(*args):
        y, state, sent = layer.encode(*args)
        return y, state, sent._replace(bits=0)

    return layer._replace(encode=encode)


for name, wrong in {
    "draws by place": int8(uniform=by_place),
    "rounds to nearest": int8(uniform=to_nearest),
    "reports no bits": unreported(int8()),
}.items():
    try:
        check_layer(case_of(wrong), unbiased=True)
    except AssertionError as error:
        print(f"{name}: {str(error)[:90]}")
    else:
        raise RuntimeError(f"{name} was not caught")

# %% [markdown]
# ## In a system
#
# A system is one expression over parts. The first stack below makes it FedAvg, the second makes it FedAvg with uploads
# in bytes.


# %%
def system(local, send, **run):
    return federated_round(
        cohort=clients.everyone(),
        local=local,
        layers=stack(weigh=scale(), send=send),
        channel=erasure(),
        aggregate=mean(),
        server=optax.sgd(1.0),
        **run,
    )


digits = data.digits()
train = data.federate(digits, num_clients=20, partition="dirichlet", concentration=1.0)
model = models.mlp((8, 8, 1), 10, hidden=(32,))
local = clients.local_sgd(losses.softmax_cross_entropy(model), learning_rate=0.1, batch_size=10, num_epochs=1)
key = jax.random.key(0)
how = dict(rounds=20, evaluate=metrics.accuracy(model, digits.x_test, digits.y_test), every=2, progress=False)
results = {
    name: simulate(system(local, send), key, model.init(key), train, **how)
    for name, send in {"float32": plain(), "int8": int8()}.items()
}
for name, result in results.items():
    sent = result.up_bytes.sum("phase").mean().item()
    print(f"{name}: accuracy {result.accuracy[-1].item():.3f}, {sent:,.0f} bytes up by client and round")

# %%
learning_curves(results)

# %% [markdown]
# Each client draws by its number and sums are in fixed point, so the block size changes no bit of the sum:

# %%
updates = jax.random.normal(key, (20, 50))
nothing = ClientData((jnp.zeros((20, 1)),), jnp.ones(20, jnp.int32))
directions = []
for block in (1, 6, 20):
    one = system(sending(updates), int8(), block=block)
    directions.append(jax.jit(one.step)(key, one.init(key, jnp.zeros(50), nothing), nothing)[1].direction)
assert all(np.array_equal(directions[0], other) for other in directions)
print("blocks of 1, 6 and 20 clients: the same bits")

# %% [markdown]
# A layer of the package has a line in the table of `tests/testing/layer_cases.py`; `test_laws.py` runs the same checks.
