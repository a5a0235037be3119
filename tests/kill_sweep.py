"""A sweep that is killed again and again; `test_kill.py` runs it in a process without devices, since it forks.

Every life is a fork that resumes the sweep. A fourth of them are killed a random moment after it said so, the others
kill themselves at a step of a file on its way to the disk: when it was opened to write, when its content is there, or
when it has replaced the one before. All steps of a round are met. Prints a line for each life: `killed FOLDER LOGGED
COMMITTED`, with the rounds in the log and in checkpoints, or `finished FOLDER`. The folder `whole` holds the sweep that
was left alone.
"""

import io
import itertools
import os
import random
import signal
import time

import jax
import jax.numpy as jnp

import helpers
from fedjax_priv import Keep, sweep
from fedjax_priv.runs.records import checkpoint, log_file, run_folder

D, ROUNDS = 8, 60
STEPS = [(io, "open"), (os, "fsync"), (os, "replace")]
STEPS_OF_A_ROUND = (
    9  # two files of a checkpoint, each opened, synced, in place, and its folder synced; a line of the log
)


def run(keep, log=None):
    """Three waves of two runs, of one program so that a life begins soon; a checkpoint after every round."""
    make = lambda rate: helpers.pulling(rate, cohort_size=3)
    axes, data = {"rate": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]}, helpers.targets(6, D)
    return sweep(
        make, axes, jax.random.key(1), jnp.zeros(D), data,
        rounds=ROUNDS, at_once=2, keep=keep, log=log, progress=False,
    )  # fmt: skip


def die_at(step):
    """The process kills itself after so many steps."""
    taken = itertools.count(1)

    def watched(name, call):
        def after(*args, **how):
            out = call(*args, **how)
            reads = name == "open" and "r" in (*args, "r")[1]
            if not reads and next(taken) == step:
                os.kill(os.getpid(), signal.SIGKILL)
            return out

        return after

    for module, name in STEPS:
        setattr(module, name, watched(name, getattr(module, name)))


def one_life(folder, delay=None, step=None):
    """Whether the sweep came to its end; without a delay or step it is left alone."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        if step is not None:
            die_at(step)
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
    """Rounds that count, of all waves; what was measured before a wave's first round is no round."""
    files = [name for names in checkpoint.read(folder).files for name in names]
    return sum(chunk.rounds > 0 for name in files for chunk in checkpoint.read_chunks(folder / name))


def end(chance, number):
    """How the life before the last `number` kills ends."""
    if number % 4 == 0:
        return {"delay": chance.random() * 0.15}
    return {"step": chance.randrange(3, 30) * STEPS_OF_A_ROUND + number - number // 4}


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
        logged = {(record["wave"], record["round"]) for record in log_file.read(folder) if record["round"]}
        ended = (folder / run_folder.RESULT).exists()  # and its checkpoints may be gone
        print("killed", number, len(logged), len(logged) if ended else committed(folder / run_folder.CHECKPOINT))
    assert one_life(root / str(number))
    print("finished", number)
