"""Accuracy under the worst attack, with hyperparameters chosen as in ByzFL's benchmark."""

from collections.abc import Sequence

import xarray as xr


def worst_case(runs: xr.Dataset, hyperparameters: Sequence[str], *, attack: str = "attack") -> xr.Dataset:
    """Chooses hyperparameters by validation accuracy under the worst attack, and reports test accuracies.

    At every point of the other axes, accuracies are averaged over seeds, and the best evaluation of this mean counts.
    The chosen hyperparameters have the largest minimum over attacks of this validation accuracy; the first ones if
    several do.

    Args:
      runs: `validation` and `test`, accuracies with the dimensions `attack`, "seed", "evaluation", the hyperparameters
        and any others, as `sweep` returns them.
      hyperparameters: axes of hyperparameters, at least one.
      attack: the axis of attacks.

    Returns:
      By the other axes and attack: `accuracy`, the largest test accuracy of all evaluations, as ByzFL reports it, which
      selects on the test set; `validated`, the test accuracy at the evaluation with the best validation accuracy. By
      the other axes: `worst` and `worst_validated`, the minima of both over attacks, and `chosen_NAME` for every
      hyperparameter. NaN accuracies count as 0.

    Raises:
      ValueError: a variable or dimension is missing, or `hyperparameters` is not a list of different axes other than
        `attack`, "seed" and "evaluation".

    Examples:
      >>> import xarray as xr
      >>> axes = ("attack", "rate", "seed", "evaluation")
      >>> accuracy = np.array([[0.8, 0.5], [0.4, 0.5]]).reshape(2, 2, 1, 1)  # with rate 1 the worst is 0.4
      >>> runs = xr.Dataset({"validation": (axes, accuracy), "test": (axes, accuracy)}, {"rate": [1.0, 0.1]})
      >>> found = worst_case(runs, ["rate"])
      >>> print(float(found.worst), float(found.chosen_rate))
      0.5 0.1
    """
    others = {attack, "seed", "evaluation"}
    axes = set() if isinstance(hyperparameters, str) else {*hyperparameters} - others
    if not axes or len(axes) < len(hyperparameters):
        allowed = f"a list of different axes, none of {sorted(others)}"
        raise ValueError(f"hyperparameters must be {allowed}, got {hyperparameters!r}")
    needed = others | axes
    for name in ("validation", "test"):
        if name not in runs or not needed <= set(runs[name].dims):
            raise ValueError(f"runs must have {name!r} with the dimensions {sorted(needed)}")
    validation, test = (runs[name].fillna(0).mean("seed") for name in ("validation", "test"))
    score = validation.max("evaluation").min(attack).stack(setting=list(hyperparameters))
    best = score.argmax("setting")
    of_best = lambda values: values.stack(setting=list(hyperparameters)).isel(setting=best).drop_vars("setting")
    when, chosen = of_best(validation).argmax("evaluation"), of_best(test).drop_vars(hyperparameters)
    accuracy, validated = chosen.max("evaluation"), chosen.isel(evaluation=when, drop=True)
    names = {
        f"chosen_{name}": score[name].isel(setting=best).drop_vars(["setting", *hyperparameters])
        for name in hyperparameters
    }
    return xr.Dataset({
        "accuracy": accuracy, "worst": accuracy.min(attack),
        "validated": validated, "worst_validated": validated.min(attack), **names,
    })  # fmt: skip
