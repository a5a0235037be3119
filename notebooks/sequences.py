# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Sequences: a model of characters
#
# A small transformer learns to guess the next character of a text. The text is the documentation that comes with every
# Python. Each topic of `help()` is a client: it keeps its text and sends updates of the model alone. The notebook needs
# only the installed package, and takes half a minute of processor time.

# %%
# %matplotlib inline
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

from fedjax_priv import clients, data, losses, metrics, models, simulate, systems

# %% [markdown]
# ## The data
#
# Text is cut into windows of 32 characters, each a number. The label of a character is the one that follows it. Some
# topics are short and some are long, so clients hold very different numbers of windows.

# %%
text = data.python_documentation(length=32)
train = data.stack_clients((text.x_train, text.y_train), data.by_user(text.users))
read = lambda numbers: "".join(text.vocabulary[number] for number in numbers)
print("a window: ", repr(read(text.x_train[40])))
print("its label:", repr(read(text.y_train[40])))
print(f"{len(train.count)} clients with {train.count.min()} to {train.count.max()} windows")

# %% [markdown]
# ## What is easy to guess
#
# A fraction of correct guesses must be compared with simple rules. Two rules need no network: always guess the most
# frequent character, or guess the character that most often follows the one before. Both are counted on the training
# text of all clients together, which a server that never sees text could not do. Places without a next character have
# the label -1 and do not count.

# %%
there, tested = text.y_train >= 0, text.y_test >= 0
pairs = np.zeros((len(text.vocabulary),) * 2, int)
np.add.at(pairs, (text.x_train[there], text.y_train[there]), 1)
answers = text.y_test[tested]
frequent = (pairs.sum(0).argmax() == answers).mean()
follows = (pairs.argmax(1)[text.x_test[tested]] == answers).mean()
print(f"most frequent character: {frequent:.1%} right; the one that most often follows: {follows:.1%}")

# %% [markdown]
# ## Training
#
# The model looks at all characters of the window up to the one whose successor it guesses. `sequence_cross_entropy` and
# `sequence_accuracy` take labels of shape `[b, length]`; the rest is as for images. In each round, 16 of the clients
# take eight steps.

# %%
model, key = models.transformer(len(text.vocabulary), 32, width=32, heads=2, blocks=1), jax.random.key(0)
params = model.init(key)
loss = losses.sequence_cross_entropy(model)
local = clients.local_sgd(loss, learning_rate=1.0, batch_size=8, num_steps=8)
system = systems.fedavg(local, cohort_size=16)
some = np.random.default_rng(0).choice(len(text.x_test), 200, replace=False)
evaluate = metrics.sequence_accuracy(model, text.x_test[some], text.y_test[some])
result = simulate(system, key, params, train, rounds=40, evaluate=evaluate, every=5, progress=False)
accuracy = result.accuracy.values
assert accuracy[0] < 0.05 and accuracy[-1] > frequent + 0.04
sent = result.up_bytes.sum("phase").mean().item()
print(f"{accuracy[-1]:.1%} right; a client of a round sends {sent:,.0f} bytes, {models.num_params(params):,} numbers")

# %%
figure, axis = plt.subplots(figsize=(6, 3.4), layout="constrained")
axis.plot(result.evaluation, accuracy, marker="o", label="transformer, trained by the clients")
axis.axhline(frequent, color="gray", linestyle=":", label="most frequent character")
axis.axhline(follows, color="gray", linestyle="--", label="what most often follows the character before")
axis.set(xlabel="round", ylabel="next character guessed", title="200 windows that no client trained on")
axis.legend(loc="lower right")
axis.grid(alpha=0.3)

# %% [markdown]
# After 40 rounds the model is about as good as the table of pairs, which was counted on everybody's text.
#
# ## What it writes
#
# We draw one character after the other from the model's probabilities. The result has the look of the text (lengths of
# words, spaces, common endings) but no sense yet.

# %%
structure = jax.flatten_util.ravel_pytree(params)[1]
trained = structure(jnp.asarray(result.params.values))


@jax.jit
def one_more(key, window):
    return jax.random.categorical(key, model.apply(trained, window[None, :])[0, -1])


written = list(text.x_test[0])
for step_key in jax.random.split(key, 120):
    written.append(int(one_more(step_key, jnp.array(written[-32:]))))
print(read(written[:32]), "...", read(written[32:]), sep="\n")

# %% [markdown]
# ## Sending less, and in secret
#
# Replace the system, and nothing else changes: `systems.secagg(local, num_clients=79, cohort_size=16)` hides each
# update in a sum. To send fewer numbers, `models.lora` trains adapters alone; see "Other libraries" in the
# documentation. The text of a topic is all that a client holds, so to bound what the model reveals about it, use
# `systems.dp_fedavg`, whose figures protect whole clients.
