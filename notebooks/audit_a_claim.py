# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Audit a claim
#
# A privacy claim is a promise about everything an adversary could do. An audit plays the adversary: it runs the system
# on two adjacent inputs, looks at what the server sees, and computes a lower bound on $\varepsilon$ at a stated
# confidence. If the bound exceeds the claim, the claim is false (or the code does not do what the claim is about). If
# it does not, nothing is proved.

# %%
# %matplotlib inline
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

from fedjax_priv import channels, systems
from fedjax_priv.audit import one_run, sending, two_worlds
from fedjax_priv.base import ClientData
from fedjax_priv.theory import gaussian
from fedjax_priv.theory.wireless import Round, rigorous_epsilon

# %% [markdown]
# ## The claim
#
# Five users share a wireless channel, and each is on the air with probability 0.8. Gradients are clipped to $L$, users
# add privacy noise of variance $\sigma^2$, and the receiver adds noise. The accountant claims:

# %%
USERS, PARAMS, CLIP, VARIANCE, JOIN, RECEIVER = 5, 3, 1.0, 1.0, 0.8, 0.5
DELTA, TRIALS = 1e-3, 20_000
key = jax.random.key(0)
setting = Round(USERS, JOIN, clip=CLIP, noise_variance=VARIANCE, receiver_noise=RECEIVER)
claim = rigorous_epsilon(setting, DELTA)
print(f"claimed: eps = {claim:.3f} at delta = {DELTA:g}")

# %% [markdown]
# ## Two worlds
#
# By definition, for any event $E$ that the adversary can observe,
#
# $$ \Pr[E \mid \text{first input}] \le e^{\varepsilon} \Pr[E \mid \text{second input}] + \delta. $$
#
# The two inputs differ in one user. It sends a vector along a random direction, or the opposite vector; everybody else
# sends the opposite vector. The vectors are three times too long, because clipping is part of the claim. The score is
# what the server receives along that direction. Half of the runs choose an event, the other half are counted, and
# Clopper-Pearson intervals give the bound.


# %%
along = jax.random.normal(key, (PARAMS,))
along = along / jnp.linalg.norm(along)
second = jnp.broadcast_to(-3 * CLIP * along, (USERS, PARAMS))
first = second.at[0].multiply(-1)
nothing = ClientData((jnp.zeros((USERS, 1)),), jnp.ones(USERS, jnp.int32))


@jax.jit
def received(keys, updates, variance, clip):
    """What the server receives along the direction, of one round for each key."""
    system = systems.wireless(
        sending(updates),
        clip=clip,
        noise_variance=variance,
        receiver_noise=RECEIVER,
        participation=JOIN,
        fading=channels.constant(),
        observe=lambda view: view.received.value[0] @ along,
        block=USERS,
        mesh=None,
    )
    one = lambda key: system.step(key, system.init(key, jnp.zeros(PARAMS), nothing), nothing)[1].observed
    return jax.lax.map(one, keys, batch_size=1000)


def audited(variance=VARIANCE, clip=CLIP):
    """Scores of many runs on either input, all with different draws."""
    keys = jax.random.split(key, (2, TRIALS))
    return [np.asarray(received(k, updates, variance, clip)) for k, updates in zip(keys, (first, second), strict=True)]


sound = audited()
bound = two_worlds(*sound, delta=DELTA)
print(f"eps >= {bound.epsilon:.3f} with confidence {bound.confidence:.0%}: {bound.why}")
assert bound.epsilon < claim
print("the claim stands")

# %% [markdown]
# ## A claim that does not stand
#
# Two mistakes are easy to make, and no accuracy curve shows them: dividing the noise by the number of users, as their
# mean is divided, and forgetting to clip. The claim stays the same.

# %%
broken = {"noise divided by the users": audited(variance=VARIANCE / USERS**2), "not clipped": audited(clip=100.0)}
for name, worlds in broken.items():
    found = two_worlds(*worlds, delta=DELTA)
    print(f"{name}: eps >= {found.epsilon:.3f}, claimed {claim:.3f} ({found.why})")
    assert found.epsilon > claim

# %%
figure, panels = plt.subplots(1, 3, figsize=(10, 2.8), layout="constrained", sharey=True)
for axis, (name, worlds) in zip(panels, {"as claimed": sound, **broken}.items(), strict=True):
    bins = np.linspace(*np.quantile(np.concatenate(worlds), [0.001, 0.999]), 60)
    for values, label in zip(worlds, ("first input", "second input"), strict=True):
        axis.hist(values, bins=bins, alpha=0.5, label=label)
    axis.set(title=f"{name}\neps >= {two_worlds(*worlds, delta=DELTA).epsilon:.2f}", xlabel="score")
    axis.grid(alpha=0.3)
panels[0].set(ylabel="runs")
_ = panels[0].legend(frameon=False)

# %% [markdown]
# How wrong must the noise be before the audit notices? Each variance below is audited against the claim for the right
# variance. The plot also shows the exact figure for each variance; the audit must stay below it.

# %%
fractions = np.array([1.0, 0.5, 0.2, 0.1, 0.04])
found = [
    two_worlds(*(audited(variance=fraction * VARIANCE) if fraction < 1 else sound), delta=DELTA)
    for fraction in fractions
]
own = [rigorous_epsilon(setting._replace(noise_variance=fraction * VARIANCE), DELTA) for fraction in fractions]
figure, axis = plt.subplots(figsize=(5.4, 3.2), layout="constrained")
axis.plot(fractions, own, "s-", label="exact, for the noise that is there")
axis.plot(fractions, [bound.epsilon for bound in found], "o-", label="audit: at least")
axis.axhline(claim, color="grey", linestyle="--", label="claimed")
axis.set(xscale="log", xlabel="noise variance / variance of the claim", ylabel=f"eps at delta = {DELTA:g}")
axis.legend(frameon=False)
axis.grid(alpha=0.3)
assert all(bound.epsilon < exact for bound, exact in zip(found, own, strict=True))

# %% [markdown]
# If the bound is below the claim, a mistake goes unnoticed. More runs, or a better score, would find smaller mistakes.
# An audit that finds nothing is not a certificate.
#
# ## One run
#
# Thousands of runs are too expensive for a large model. Steinke, Nasr and Jagielski (2023) put many canaries into one
# run, toss a coin for each, and guess which are in. Here every user is a canary and has its own coordinate, where it
# sends $L$ or nothing. We run one round of the same channel with all users on the air; a canary shifts the mean by $L$.

# %%
CANARIES = 2000
coins = np.random.default_rng(0).random(CANARIES) < 0.5


def guessed(variance, claimed_variance):
    updates = CLIP * jnp.diag(jnp.asarray(coins, jnp.float32))
    samples = ClientData((jnp.zeros((CANARIES, 1)),), jnp.ones(CANARIES, jnp.int32))
    system = systems.wireless(
        sending(updates),
        clip=CLIP,
        noise_variance=variance / CANARIES,
        receiver_noise=0.0,
        fading=channels.constant(),
        observe=lambda view: view.received.value[0],
        block=100,
        mesh=None,
    )
    step = jax.jit(lambda data: system.step(key, system.init(key, jnp.zeros(CANARIES), data), data)[1].observed)
    bound = one_run(np.asarray(step(samples)), coins, guesses=200, delta=1e-5)
    return bound, gaussian.epsilon(1e-5, CLIP / np.sqrt(claimed_variance))


for name, variance in {"as claimed": 4.0, "half of the noise": 2.0, "a hundredth": 0.04}.items():
    bound, claimed = guessed(variance, 4.0)
    verdict = "contradicted" if bound.epsilon > claimed else "stands"
    print(f"{name}: eps >= {bound.epsilon:.2f} ({bound.why}), claimed {claimed:.2f}: {verdict}")
    assert (bound.epsilon > claimed) == (name == "a hundredth")

# %% [markdown]
# One run is cheap and weak: it found the gross mistake and missed the other. The notebooks `cdp_fl` and `wireless` each
# audit a published theorem and contradict it.
