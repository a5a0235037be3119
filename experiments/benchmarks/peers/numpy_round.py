"""A plain NumPy loop over clients."""

import numpy as np
from reference import Arrays, fedavg_round
from work import LEARNING_RATE, Clock, Work, main


def train(work: Work, params: Arrays, x: np.ndarray, y: np.ndarray, rounds: int, clock: Clock) -> Arrays:
    for _ in range(rounds):
        params = fedavg_round(work, params, x, y, LEARNING_RATE)
        clock.done()
    return params


if __name__ == "__main__":
    main(train, ("numpy",))
