"""What is left under the worst attack, once hyperparameters are chosen: the selection of ByzFL's benchmark."""

from collections.abc import Sequence

import xarray as xr


def worst_case(runs: xr.Dataset, hyperparameters: Sequence[str], *, attack: str = "attack") -> xr.Dataset:
    """Choose hyperparameters by validation accuracy under the worst attack, and report test accuracy under it.

    For every point of the other axes: accuracies are means over seeds; a run counts with its best evaluation; those
    hyperparameters are taken whose least validation accuracy over attacks is largest, the first ones of equals.

    Args:
      runs: `validation` and `test`, accuracies with the dimensions `attack`, "seed", "evaluation", the hyperparameters
        and any others, as `sweep` returns them.
      hyperparameters: axes to choose on, at least one.
      attack: the axis of attacks.

    Returns:
      By the other axes and attack: `accuracy`, the largest test accuracy of all evaluations, as ByzFL reports it, which
      selects on the test set; `validated`, that at the evaluation best in validation. By the other axes: `worst` and
      `worst_validated`, the least of both over attacks, and `chosen_NAME` for every hyperparameter. An accuracy
      that is NaN counts as 0.

    Raises:
      ValueError: a variable or dimension is missing, or `hyperparameters` are not different names of other axes.

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
