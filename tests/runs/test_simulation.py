import contextlib
import copy
import io
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import xarray as xr
from rich.console import Console

from fedjax_priv.analysis import bands
from fedjax_priv.base import Algorithm, ClientData, Link, RoundInfo, RoundState
from fedjax_priv.clients import bernoulli, local_sgd, once_per_model, round_robin
from fedjax_priv.engine.mesh import clients_mesh
from fedjax_priv.runs import progress, simulation
from fedjax_priv.runs.ending import SimulationError
from fedjax_priv.runs.records import run_folder
from fedjax_priv.runs.simulation import simulate
from fedjax_priv.runs.sweep import sweep
from helpers import engine, refuses, targets, towards_target

N, M, D, SHIFT = 8, 3, 6, 50_000_000
KEY = jax.random.key(7)
PARAMS = {"b": jnp.arange(2, dtype=jnp.float32), "w": np.ones((2, 2), np.float32)}
RNG = np.random.default_rng(0)
DATA = ClientData(RNG.normal(size=(N, M, D)).astype(np.float32), np.arange(N, dtype=np.int32) % M + 1)


def quadratic(*, cohort=N, mesh=None, traces=None, fails=(3, 4)):
    """Every client pulls the parameters to the mean of its samples, with a little noise; some rounds fail."""

    def init(key, params, data):
        n = data.count.shape[0]
        # `draw` and `server` are arrays of the caller or one array twice, as optimizers that keep the parameters do
        return RoundState(jnp.int32(0), params["w"], params, jnp.zeros(n), jnp.zeros((n, 2)), (), params["w"])

    def step(key, state, data):
        if traces is not None:
            traces.append(1)
        noise = jax.random.normal(jax.random.fold_in(key, state.round), (D,))
        client = (jnp.arange(cohort) + state.round) % N
        flat = jnp.concatenate([state.params["b"], state.params["w"].reshape(-1)])
        pull = flat[None, :] - data.examples[client].mean(1)
        failed = jnp.isin(state.round, jnp.array(fails))
        flat = jnp.where(failed, flat, flat - 0.1 * (pull.mean(0) + 0.01 * noise))
        params = {"b": flat[:2], "w": flat[2:].reshape(2, 2)}
        bits = {
            "upload": Link(8 * client.astype(jnp.uint32) + SHIFT * 32, jnp.zeros(cohort, jnp.uint32)),
            "model": Link(jnp.zeros(cohort, jnp.uint32), jnp.full(cohort, 1, jnp.uint32)),
        }
        status = jnp.where(failed, 1, 0)
        info = RoundInfo(
            flat,
            client,
            jnp.square(pull).mean(1),
            client >= 0,
            bits,
            client != 0,
            jnp.stack([status, 0 * status]),
            status,
        )
        state = RoundState(state.round + 1, state.draw, params, state.memory + 1, state.layers, (), 0.5 * state.server)
        return state, info

    return Algorithm(init, step, mesh)


def evaluate(params):
    return {"distance": jnp.sqrt(jnp.square(params["w"]).sum()), "accuracy": params["b"].max()}


def run(algorithm=None, *, rounds=7, evaluate=evaluate, every=7, progress=False):
    algorithm = algorithm or quadratic()
    return simulate(algorithm, KEY, PARAMS, DATA, rounds=rounds, evaluate=evaluate, every=every, progress=progress)


@pytest.fixture(scope="module")
def whole():
    """A run in four chunks, the last one shorter."""
    return run(every=2)


@pytest.fixture(scope="module")
def loop():
    """The plain loop: seven states and infos, on the host."""
    algorithm = quadratic()
    step, state, history = jax.jit(algorithm.step), algorithm.init(KEY, PARAMS, DATA), []
    for _ in range(7):
        state, info = step(KEY, state, jax.tree.map(jnp.asarray, DATA))
        history.append(jax.device_get((state, info)))
    return history


def same_prefix(a: xr.Dataset, b: xr.Dataset) -> None:
    """What `a` has is what `b` had after as many rounds, but for the time it took."""
    b = b.isel(round=slice(a.sizes["round"]), evaluation=slice(a.sizes["evaluation"]))
    xr.testing.assert_identical(*(x.drop_attrs().drop_vars(["seconds", "params"]) for x in (a, b)))


@pytest.mark.parametrize("every", [1, 3, 100])
def test_it_is_the_plain_loop(loop, every):
    got = run(every=every)
    states, infos = zip(*loop, strict=True)
    for name, field in dict(
        loss="loss", trains="trains", counted="counted", client_id="client", status="status"
    ).items():
        np.testing.assert_array_equal(got[name], np.stack([getattr(info, field) for info in infos]), strict=True)
    final = states[-1].params
    np.testing.assert_array_equal(got.params, np.concatenate([final["b"], final["w"].ravel()]), strict=True)
    ends = [*range(0, 7, every), 7]
    np.testing.assert_array_equal(got.evaluation, ends)
    params = [PARAMS, *(state.params for state in states)]
    np.testing.assert_allclose(got.distance, [np.linalg.norm(params[end]["w"]) for end in ends], rtol=1e-6)
    np.testing.assert_array_equal(got.accuracy, [params[end]["b"].max() for end in ends])
    assert got.seconds[0] == 0 and (np.diff(got.seconds) > 0).all()


@pytest.mark.parametrize(("every", "programs"), [(2, 1), (3, 2)])
def test_one_trace_a_chunk_length(every, programs):
    traces = []
    run(quadratic(traces=traces), rounds=8, every=every)
    assert len(traces) == programs


@pytest.mark.parametrize(("cohort", "devices"), [(N, 4), (3, 8), (N, 3)])
def test_devices_and_cohorts(loop, cohort, devices):
    got = run(quadratic(cohort=cohort, mesh=clients_mesh(jax.devices()[:devices])))
    np.testing.assert_array_equal(got.client_id[2], (np.arange(cohort) + 2) % N)
    assert got.sizes["client"] == cohort and got.attrs["num_clients"] == N
    if cohort == N:
        np.testing.assert_allclose(got.loss, [info.loss for _, info in loop], rtol=1e-5)


def test_data_is_spread_over_the_devices(monkeypatch):
    seen, lower_runs = [], simulation.lower_runs
    see = lambda make, inputs, **how: seen.append(inputs.data) or lower_runs(make, inputs, **how)
    monkeypatch.setattr(simulation, "lower_runs", see)
    run(quadratic(mesh=clients_mesh(jax.devices()[:4])))
    assert [shard.data.shape for shard in seen[0].examples.addressable_shards] == [(2, M, D)] * 4


def test_bytes_beyond_uint32_and_the_order_of_phases(loop, whole):
    got = whole
    assert got.phase.values.tolist() == ["upload", "model"]
    exact = [sum(int(info.bits["upload"].up[i]) for _, info in loop) for i in range(N)]
    assert max(exact) > 2**32
    np.testing.assert_array_equal(8 * got.up_bytes.sel(phase="upload").sum("round"), exact)
    assert (got.down_bytes.sel(phase="model") == 1 / 8).all() and got.up_bytes.attrs["units"] == "B"


def test_failed_rounds_are_counted(whole):
    got = whole
    assert got.attrs["failed_rounds"] == 2
    assert got.attrs["failed_because"] == "2 x too few survivors to recover the sum"
    assert got.status.values.tolist() == [0, 0, 0, 1, 1, 0, 0]
    assert got.group_status.isel(group=0).values.tolist() == [0, 0, 0, 1, 1, 0, 0]
    assert run(quadratic(fails=(99,))).attrs["failed_because"] == "none failed"


def test_arguments_are_left_alone():
    params = jax.tree.map(jnp.array, PARAMS)
    data = jax.tree.map(jnp.array, DATA)
    for mesh in (None, clients_mesh()):
        simulate(quadratic(mesh=mesh), KEY, params, data, rounds=2, progress=False)
    jax.tree.map(np.testing.assert_array_equal, (params, data), (PARAMS, DATA))


def raise_at(monkeypatch, call, error):
    """The `call`-th time results are fetched, from 1: evaluation, then rounds and evaluation in turn."""
    calls, fetch = [], jax.device_get

    def device_get(tree):
        calls.append(1)
        if len(calls) == call:
            raise error
        return fetch(tree)

    monkeypatch.setattr(jax, "device_get", device_get)


@pytest.mark.parametrize(("call", "finished"), [(2, 0), (6, 2), (7, 2)])
def test_an_interrupted_run_keeps_its_chunks(monkeypatch, capsys, loop, whole, call, finished):
    raise_at(monkeypatch, call, KeyboardInterrupt)
    got = run(every=2)
    done = 2 * finished
    assert got.attrs["interrupted"] == 1 and whole.attrs["interrupted"] == 0 and got.attrs["rounds_done"] == done
    assert got.sizes["evaluation"] == finished + 1
    same_prefix(got, whole)
    params = loop[done - 1][0].params if done else PARAMS
    np.testing.assert_array_equal(got.params, np.concatenate([params["b"], np.ravel(params["w"])]))
    assert capsys.readouterr().err == f"interrupted: {done} of 7 rounds are kept\n"


def test_an_interrupt_before_the_first_evaluation_finds_nothing_to_keep(monkeypatch):
    raise_at(monkeypatch, 1, KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        run(every=2)


def test_an_error_keeps_the_chunks(monkeypatch, whole):
    raise_at(monkeypatch, 5, RuntimeError("disk full"))
    with pytest.raises(SimulationError, match="after 2 of 7 rounds: disk full") as caught:
        run(every=2)
    assert isinstance(caught.value.__cause__, RuntimeError) and caught.value.dataset.sizes["round"] == 2
    same_prefix(caught.value.dataset, whole)


def test_such_an_error_comes_back_whole_from_another_process():
    error = SimulationError("after 1 of 7 rounds: disk full", xr.Dataset({"loss": ("round", [0.5])}))
    for got in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(got) is SimulationError and str(got) == str(error)
        xr.testing.assert_identical(got.dataset, error.dataset)


def test_no_evaluation():
    got = run(evaluate=None)
    assert got.evaluation.values.tolist() == [0, 7] and "accuracy" not in got


def test_it_is_stored_and_read_again(tmp_path, whole):
    whole.to_netcdf(tmp_path / "run.nc", engine="scipy")
    with xr.open_dataset(tmp_path / "run.nc", engine="scipy") as stored:
        xr.testing.assert_identical(stored.load(), whole)
    xr.testing.assert_identical(pickle.loads(pickle.dumps(whole)), whole)


def test_attributes(whole):
    attrs = whole.attrs
    expected = dict(rounds=7, every=2, rounds_done=7, num_clients=N, num_params=D, interrupted=0, failed_rounds=2)
    assert expected.items() <= attrs.items()
    assert attrs["compile_seconds"] > 0 and attrs["key"] == "00000000 00000007"
    assert all(type(value) in (int, float, str) for value in attrs.values())


def observing(observe, **how):
    """`quadratic` whose rounds say what the server saw."""
    blind = quadratic(**how)

    def step(key, state, data):
        state, info = blind.step(key, state, data)
        return state, info._replace(observed=observe(state.round))

    return blind._replace(step=step)


def test_what_the_server_saw_is_kept_round_by_round(whole):
    numbers = lambda round: {"sent": 2 * round, "each": jnp.arange(3) + round}
    got = run(observing(numbers), every=2)
    assert got.sent.dims == ("round",) and got.sent.values.tolist() == [2, 4, 6, 8, 10, 12, 14]
    assert got.each.dims == ("round", "each_place") and got["each"].values.tolist() == [
        [r, r + 1, r + 2] for r in range(1, 8)
    ]
    assert got.sent.attrs["long_name"] == "sent, from what the server sees"
    xr.testing.assert_identical(
        *(x.drop_attrs().drop_vars("seconds") for x in (got.drop_vars(["sent", "each"]), whole))
    )


def test_numbers_of_types_that_only_jax_knows_are_kept_in_types_of_numpy(tmp_path):
    """pandas and netCDF know no bfloat16; a run that measured some must not fail when it is saved."""
    numbers = lambda round: {
        "half": jnp.bfloat16(1.5),
        "few": jnp.asarray([1, -2], jnp.int4),
        "plain": 0.25,
        "is": True,
    }
    got = run(observing(numbers), every=3)
    assert (got.half.dtype, got.few.dtype) == (np.float32, np.int32)
    assert got.half.to_pandas().tolist() == [1.5] * 7 and got.few.values.tolist() == [[1, -2]] * 7
    assert got.plain.values.tolist() == [0.25] * 7 and got["is"].dtype == bool
    run_folder.create(tmp_path / "a", {})
    run_folder.save(tmp_path / "a", got)
    xr.testing.assert_identical(run_folder.load(tmp_path / "a"), got)


test_what_cannot_be_kept_of_a_view = refuses(
    lambda observed: run(observing(observed)),
    (
        lambda round: round,
        "^observe must .* by name in simulate and sweep, got .*; for whole views, call step",
    ),
    (
        lambda round: {"fine": round, "view": jnp.ones((2, 2))},
        r"^observe must return .* in simulate and sweep, got 'view': an array of shape \(2, 2\); for whole",
    ),
    (lambda round: {"key": jax.random.key(0)}, r"^observe must return .* numbers or vectors by name .*, got 'key': an"),
    (lambda round: {1: round}, r"^observe must use names .* got \[1\]"),
    (lambda round: {"view": {"deep": round}}, "observe must return a dict of numbers or vectors by name"),
    (lambda round: {"loss": round}, r"observe must use names .* other than those of the result, got \['loss'\]"),
    (lambda round: {"a/b": round}, r"observe must use names without '/' .* got \['a/b'\]"),
    (lambda round: {"distance": round}, r"unlike any .* got \['distance'\]"),  # the name of a metric
)


def test_caveats_of_a_system_go_with_its_results():
    told = lambda **how: quadratic(fails=(99,))._replace(caveats=("in the clear", "a toy"))
    assert run(told()).attrs["caveats"] == "in the clear / a toy"
    assert run().attrs["caveats"] == ""
    runs = lambda make, axes, **how: sweep(make, axes, KEY, PARAMS, DATA, rounds=2, progress=False, **how)
    assert runs(told, {"seed": [0, 1]}).attrs["caveats"] == "in the clear / a toy"
    some = lambda how: {0: quadratic(), 1: told(), 2: quadratic()._replace(caveats=("a toy", "slow"))}[how]
    got = runs(some, {"how": [0, 1, 2]}, static=("how",))
    assert got.attrs["caveats"] == "in the clear / a toy / slow", "of all points, once each"


def simulated(how):
    how = dict(key=KEY, params=PARAMS, data=DATA, rounds=1) | how
    return simulate(quadratic(), how.pop("key"), how.pop("params"), how.pop("data"), **how)


test_bad_arguments = refuses(
    simulated,
    (dict(rounds=0), "rounds must be an integer >= 1"),
    (dict(rounds=2**31, every=2**31), r"rounds must be below 2\*\*31, got 2147483648"),
    (dict(every=0), "every must be an integer >= 1"),
    (dict(key=jax.random.key_data(KEY)), "key must be one typed key, .*, got an old-style key of jax.random.PRNGKey"),
    (dict(params={"w": np.ones(2)}), r"params must have float32 leaves, got float64 in params\['w'\]"),
    (dict(params=[np.ones(2, np.int32)]), r"got int32 in params\[0\]"),
    (dict(data=DATA._replace(examples={"x": np.ones((N - 1, 2))})), r"shape \(7, 2\) in data.examples\['x'\]"),
    (dict(data=DATA._replace(count=jnp.ones((), jnp.int32))), r"count of shape \[n\]"),
    (dict(evaluate=lambda params: {"a": params["w"]}), "evaluate must return a dict of scalars"),
    (dict(evaluate=lambda params: {"a": jax.random.key(0)}), "evaluate must return a dict of scalars"),
    (dict(evaluate=lambda params: params["w"].sum()), "evaluate must return a dict of scalars"),
    (dict(evaluate=lambda params: {"loss": params["w"].sum()}), r"unlike any .* got \['loss'\]"),
    (dict(evaluate=lambda params: {"failed": params["w"].sum()}), r"or entry of the log, got \['failed'\]"),
    (dict(evaluate=lambda params: {"test/a": params["w"].sum()}), r"without a slash.* got \['test/a'\]"),
)


def test_the_bar_is_updated_once_a_chunk(monkeypatch):
    console, updates = Console(file=io.StringIO(), force_terminal=True, width=140), []
    bar = progress.bar

    @contextlib.contextmanager
    def counted(total, *, show):
        with bar(total, show=show, console=console) as update:
            yield lambda done, **shown: (updates.append(done), update(done, **shown))

    monkeypatch.setattr(progress, "bar", counted)
    run(rounds=17, every=7, progress=True)
    assert updates == [0, 7, 14, 17]
    assert "17/17" in console.file.getvalue()


test_data_that_do_not_fit_their_counts = refuses(
    lambda examples, count: simulate(quadratic(), KEY, PARAMS, ClientData(examples, np.array(count)), rounds=1),
    ((np.zeros((3, 4, 2)), np.zeros((3, 5))), [1, 2, 3], r"data.examples must be arrays \[n, m, ...\] with one m"),
    (np.zeros(3), [1, 2, 3], r"data.examples must be arrays \[n, m, ...\] with one m"),
    ((), [1, 2, 3], r"data.examples must be arrays \[n, m, ...\] with one m"),
    (np.zeros((3, 4)), [1.0, 2.0, 3.0], "data.count must be integers, got float"),
    (np.zeros((3, 4)), [1, 2, 5], "data.count must be from 0 to 4"),
    (np.zeros((3, 4)), [1, -2, 3], "data.count must be from 0 to 4"),
    (np.zeros((3, 4)), [0, 0, 0], "data.count must be from 0 to 4"),
)


def test_the_loss_of_the_log_is_of_those_that_train():
    """Cohorts are drawn by coins; the model stays as it is, so that clients who come again refuse to train."""
    system = engine(cohort=bernoulli(0.4), local=once_per_model(towards_target()), server=optax.sgd(0.0))
    records, data = [], targets(N, D)._replace(count=jnp.ones(N, jnp.int32))
    run = simulate(system, KEY, jnp.ones(D), data, rounds=20, every=2, progress=False, log=records.append)
    trained = run.up_bytes.sel(phase="upload").values > 0
    assert run.sat_out.values.any() and 1 < trained.sum() <= N and not trained[-1].any()
    for record in records[1:]:
        here = trained[record["round"] - 1]
        expected = run.loss.values[record["round"] - 1][here]
        assert record["loss"] == pytest.approx(expected.mean() if here.any() else np.nan, nan_ok=True)


@pytest.mark.parametrize(("empty", "expected"), [([1], D + 5.0), ([0, 1, 2], np.nan)])
def test_a_client_without_samples_takes_part_but_counts_in_no_mean(empty, expected):
    """The cohort is the first three clients; where none of them has samples there is no loss."""
    count = np.ones(N, np.int32)
    count[empty] = 0
    loss = jax.vmap(lambda params, x: jnp.square(x - params).sum() + 5.0, (None, 0))
    local = local_sgd(loss, learning_rate=1.0, batch_size=1, num_steps=1)
    records, data = [], ClientData(np.ones((N, 1, D), np.float32), count)
    system = engine(local=local, cohort=round_robin(3))
    run = simulate(system, KEY, jnp.zeros(D), data, rounds=1, progress=False, log=records.append)
    assert (run.down_bytes > 0).any("phase").all() and run.trains.values.tolist() == [(count[:3] > 0).tolist()]
    later = simulate(system, KEY, jnp.zeros(D), data, rounds=2, progress=False)
    np.testing.assert_array_equal(later.trains, count[later.client_id.values] > 0)  # others come in round 2
    assert records[-1]["loss"] == pytest.approx(expected, nan_ok=True)
    assert bands(run, y="loss")[""].y == pytest.approx([expected], nan_ok=True)
