# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Analog or digital: what an accuracy costs on the air
#
# Twenty users train one model over one radio channel. They can send their updates *analog*, all at once, so that the
# air adds them up; or one *bit* a coordinate, and the air counts the votes; or *digital*, quantized and coded, one user
# after the other. How much bandwidth, energy and privacy does the accuracy cost?

# %%
# %matplotlib inline
import math

import jax
import matplotlib.pyplot as plt
import numpy as np
import optax

from fedjax_priv import channels, clients, data, losses, metrics, models, simulate, sweep, systems
from fedjax_priv.analysis import OnAir, air_resources
from fedjax_priv.theory import digital_links, gaussian, votes

USERS, ROUNDS, HERTZ, DELTA = 20, 40, 1e6, 1e-5
digits = data.digits()
train = data.federate(digits, USERS, seed=0)
model = models.softmax_regression((8, 8, 1), 10)
local = clients.local_sgd(losses.softmax_cross_entropy(model), learning_rate=1.0, batch_size=32, num_steps=1)
evaluate = metrics.accuracy(model, digits.x_test, digits.y_test)
params = model.init(jax.random.key(0))
d = models.num_params(params)

# %% [markdown]
# ## The budget
#
# A use of the channel has noise of variance $N_0 = 1$. Every user may spend the energy $E = 10\, d N_0$ in a round of
# $d$ uses; gains are 1. Digital users share the uses, so each sends $\frac{d}{2r} \log_2(1 + E r / (d N_0))$ bits: a
# fifth of a bit a coordinate. With three levels, at two bits, that is every tenth coordinate.

# %%
E = 10.0 * d
bits = digital_links.bits_of_a_turn(d, USERS, E, 1.0)
k = int((bits - 32) / 2)
print(f"d = {d}: {bits:.0f} bits of a user, {k} coordinates")

uses = np.geomspace(1, 300, 100)
digital = digital_links.digital_distortion(d, uses * d, USERS, E, 1.0)
analog = digital_links.analog_distortion(d, USERS, E, 1.0)
plt.loglog(uses, digital, label="digital, at least")
plt.axhline(analog, color="C1", label="analog")
plt.xlabel("uses of the channel / d")
plt.ylabel("relative error of the mean")
plt.legend()
level_at = uses[np.argmax(digital < analog)]
print(f"the same energy over {level_at:.0f} times the uses makes digital uploads as exact as analog ones")
assert 85 < level_at < 100

# %% [markdown]
# ## Train
#
# Three systems at this budget.

# %%
adam, still = optax.adam(0.02), channels.constant()
clip, level = 1.0, math.sqrt(E)
makes = {
    "analog": systems.wireless(local, clip=clip, noise_variance=0.0, level=level, fading=still, server=adam),
    "one-bit vote": systems.over_the_air_vote(
        local, level=math.sqrt(E / d), truncation=0.0, fading=still, server=optax.sgd(0.01)
    ),
    "digital": systems.digital_fedavg(
        local,
        num_params=d,
        k=k,
        snr_db=10 * math.log10(E * USERS / d),
        cohort=clients.bernoulli(1.0, fading=still),
        server=adam,
    ),
}
found = {}
for name, system in makes.items():
    run = simulate(
        system, jax.random.key(0), params, train, rounds=ROUNDS, every=ROUNDS, evaluate=evaluate, progress=False
    )
    air = OnAir(HERTZ, "orthogonal" if name == "digital" else "multiple")
    spent = air_resources(run, air, path_loss_db=100.0)
    found[name] = run.accuracy[-1].item()
    print(
        f"{name:>12}: {found[name]:.1%}, {1e3 * spent.air_seconds.sum().item():.1f} ms on the air, "
        f"{1e6 * spent.joules.isel(client=0).sum().item():.2f} microjoules of a user"
    )
assert found["analog"] > found["digital"] and found["one-bit vote"] > found["digital"]

# %% [markdown]
# ## And privacy?
#
# The receiver's noise hides something of an analog upload, for free. The level $c$ at which users are received decides
# how much: replacing all that a user holds moves what is received by up to $2 c L$ in every round, so $T$ rounds have
# $\varepsilon_G(\delta; 2 c L \sqrt{T / N_0})$. Signs have no clip: a vote moves by $2 c \sqrt{d}$.

# %%
levels = [level, 1.0, 0.1, 0.03]
weaker = sweep(
    lambda c: systems.wireless(local, clip=clip, noise_variance=0.0, level=c, fading=still, server=adam),
    {"c": levels},
    jax.random.key(0),
    model.init,
    train,
    rounds=ROUNDS,
    every=ROUNDS,
    evaluate=evaluate,
    progress=False,
)
eps = gaussian.epsilon(DELTA, 2 * np.array(levels) * clip * math.sqrt(ROUNDS))
end = weaker.accuracy.isel(evaluation=-1).values
for c, e, reached in zip(levels, eps, end, strict=True):
    print(f"analog, c = {c:6.2f}: eps = {e:9.1f}, accuracy {reached:.1%}, energy {(c * clip) ** 2 / d:.1e} of N0 a use")
of_vote = gaussian.epsilon(DELTA, votes.vote_sensitivity(d, math.sqrt(E / d)) * math.sqrt(ROUNDS))
print(f"one-bit vote: eps = {of_vote:.0f}")
assert (np.diff(eps) < 0).all() and end[0] > end[-1] + 0.3 and np.isclose(of_vote, eps[0])

# %% [markdown]
# ## Answer
#
# At equal bandwidth and energy the air that adds up wins: analog uploads and votes use the channel once for all users.
# Digital uploads become as exact with about ninety times the uses for the same energy. Privacy is not free: at the
# level that takes all the power, eps means nothing, and at a level with an eps of a few, twenty users learn hardly
# anything. A vote of the same energy leaks exactly as much as an analog upload: both move what is received by up to
# $2 \sqrt E$. Noise of the users, `noise_variance=`, is the other way to a small eps.
