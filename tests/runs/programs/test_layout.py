import jax
import jax.numpy as jnp
import pytest

from fedjax_priv.engine.side_by_side import by_platform
from fedjax_priv.runs.programs import layout


@pytest.mark.parametrize(("runs", "devices", "branches"), [(1, 1, True), (2, 1, False), (2, 2, True), (4, 2, False)])
@pytest.mark.parametrize("by_runs", [False, True], ids=["clients over devices", "runs over devices"])
def test_a_run_with_no_other_on_its_device_computes_one_branch_alone(runs, devices, branches, by_runs):
    mesh = jax.sharding.Mesh(jax.devices()[:devices], (layout.CLIENTS,))
    where = layout.runs_over_devices(jax.devices()[:devices]) if by_runs else layout.clients_over_devices(mesh, 4)
    branches = branches and (by_runs or runs == 1)
    choose = jax.jit(where.each(lambda own, key, same: jax.lax.cond(own > same, jnp.sin, jnp.cos, own), 1))
    own, same = jnp.arange(runs, dtype=jnp.float32), jnp.float32(0.5)
    args = own, jax.random.split(jax.random.key(0), runs), same
    text = choose.lower(*args).as_text()
    assert ("stablehlo.case" in text, "stablehlo.select" in text) == (branches, not branches)
    assert choose(*args).tolist() == [float((jnp.sin if x > 0.5 else jnp.cos)(x)) for x in own]


@pytest.mark.usefixtures("any_platform")
@pytest.mark.parametrize("devices", [1, 2])
def test_only_the_forms_of_its_devices_are_traced(devices):
    def not_here(x):
        raise AssertionError("these devices are a CPU's")

    mesh = jax.sharding.Mesh(jax.devices()[:devices], (layout.CLIENTS,))
    waves = layout.clients_over_devices(mesh, 4), layout.runs_over_devices(jax.devices()[:devices])
    run = lambda x, same: by_platform(jnp.sin, not_here, x) + same
    assert jax.jit(layout.one_run(mesh, 4).each(run, 1))(jnp.float32(0), jnp.float32(2)) == 2
    for where in waves:
        assert jax.jit(where.each(run, 1))(jnp.zeros(2), jnp.float32(2)).tolist() == [2, 2]
