"""A sweep that is killed again and again; `test_kill.py` runs it as a process of its own, since it forks.

    python kill_sweep.py FOLDER KILLS

Every life is a fork that resumes the sweep. A third of them are killed a random moment after it said so, the others
kill themselves beside a call on the way of a file to the disk: when it was opened, before or after its content is
there, or after it has replaced the one before. Prints a line for each life: `killed FOLDER LOGGED COMMITTED`, with the rounds in the log and
in checkpoints, or `finished FOLDER`. The folder `whole` holds the sweep that was left alone.
"""

import io
import itertools
import os
import pathlib
import random
import signal
import sys
import time

import jax
import jax.numpy as jnp
import optax

import helpers
from fedjax_priv import Keep, checkpoint, store, sweep
from fedjax_priv.systems.fedavg import fedavg

D, ROUNDS = 8, 60
MOST_CALLS = 120  # in a life that kills itself; a sweep is six times as many
PLACES = [(io, "open", "after"), (os, "fsync", "before"), (os, "fsync", "after"), (os, "replace", "after")]


def run(keep, log=None):
    """Three batches of two runs, a checkpoint after every round."""
    make = lambda rate, cohort_size: fedavg(
        helpers.remembering(), server=optax.sgd(rate), cohort_size=cohort_size, dropout=0.2
    )
    axes = {"cohort_size": [2, 3, 4], "rate": [0.1, 0.2]}
    data = helpers.targets(6, D)
    return sweep(make, axes, jax.random.key(1), jnp.zeros(D), data, rounds=ROUNDS, keep=keep, log=log, progress=False)


def die_at(module, name, when, count):
    """The process kills itself before or after its `count`-th call of a function."""
    call, calls = getattr(module, name), itertools.count(1)

    def last(*args, **how):
        due = next(calls) == count
        out = None if due and when == "before" else call(*args, **how)
        if due:
            os.kill(os.getpid(), signal.SIGKILL)
        return out

    setattr(module, name, last)


def one_life(folder, delay=None, place=None):
    """Whether the sweep came to its end; without a delay or place it is left alone."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        if place is not None:
            die_at(*place)
        run(Keep(folder, resume=True), log=lambda record: os.write(writing, b"."))
        os._exit(0)
    os.close(writing)
    os.read(reading, 1)  # rounds are running, or it has ended
    if delay is not None:
        time.sleep(delay)
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    os.close(reading)
    return os.WIFEXITED(status)


def committed(folder):
    """Rounds that count, of all batches; what was measured before a batch's first round is no round."""
    files = [name for names in checkpoint.read(folder).parts for name in names]
    return sum(chunk.rounds > 0 for name in files for chunk in checkpoint.read_chunks(folder / name))


def end(chance, number):
    """Each kind in turn."""
    if number % 3 == 0:
        return {"delay": chance.random() * 0.15}
    return {"place": (*chance.choice(PLACES), chance.randrange(1, MOST_CALLS))}


def main(root, kills):
    chance, number = random.Random(0), 0
    assert one_life(root / "whole")
    while kills:
        folder = root / str(number)
        if one_life(folder, **end(chance, kills)):
            print("finished", number)
            number += 1
            continue
        kills -= 1
        logged = {(record["batch"], record["round"]) for record in store.read_log(folder) if record["round"]}
        print("killed", number, len(logged), committed(folder / store.CHECKPOINT))
    assert one_life(root / str(number))
    print("finished", number)


if __name__ == "__main__":
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", 2)
    main(pathlib.Path(sys.argv[1]), int(sys.argv[2]))
