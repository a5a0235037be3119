import jax
import jax.numpy as jnp
import pytest

from fedjax_priv.engine.side_by_side import (
    ACCELERATOR_BYTES,
    by_platform,
    fitting,
    on_devices_of,
    side_by_side,
)
from helpers import mesh_of

pytestmark = pytest.mark.usefixtures("any_platform")


@pytest.mark.parametrize("platform", ["cpu", "cuda", "tpu"])
def test_the_platform_of_the_program_chooses_the_form(platform):
    choose = jax.jit(lambda x: by_platform(jnp.sin, jnp.cos, x))
    text = choose.trace(jnp.ones(3)).lower(lowering_platforms=(platform,)).as_text()
    assert ("stablehlo.sine" in text, "stablehlo.cosine" in text) == (platform == "cpu", platform != "cpu")


@pytest.mark.parametrize("outer", ["nothing", "a choice between CPU and others", "a choice of three"])
def test_a_gpu_may_have_a_form_of_its_own(outer):
    def inner(x):
        return by_platform(jnp.sin, jnp.cos, x, gpu=jnp.tan)

    gpu = inner if outer == "a choice of three" else None
    choose = inner if outer == "nothing" else (lambda x: by_platform(inner, inner, x, gpu=gpu))
    for platform, form in {"cpu": "sine", "cuda": "tan", "rocm": "tan", "tpu": "cosine"}.items():
        text = jax.jit(choose).trace(jnp.ones(3)).lower(lowering_platforms=(platform,)).as_text()
        assert [name for name in ("sine", "cosine", "tan") if f"stablehlo.{name} " in text] == [form]


def test_under_vmap_one_form_is_left():
    choose = jax.jit(jax.vmap(lambda x: by_platform(jnp.sin, jnp.cos, x)))
    text = choose.trace(jnp.ones(3)).lower(lowering_platforms=("cuda",)).as_text()
    assert "stablehlo.cosine" in text and "stablehlo.sine" not in text
    assert choose(jnp.ones(3)).tolist() == jnp.sin(jnp.ones(3)).tolist(), "these tests run on a CPU"


@pytest.mark.parametrize(
    ("row_bytes", "most", "budget", "rows"),
    [(3, 100, 11, 3), (3, 100, 12, 4), (3, 2, 12, 2), (13, 100, 12, 1), (2**33, 7, ACCELERATOR_BYTES, 1)],
)
def test_as_many_rows_as_fit(row_bytes, most, budget, rows):
    assert fitting(row_bytes, most, budget) == rows


def test_a_choice_inside_a_choice_is_made_already():
    """Each form is traced once outside and once inside; JAX takes no form traced for one platform for another."""
    traced = []
    sine, cosine = lambda x: traced.append("sine") or jnp.sin(x), lambda x: traced.append("cosine") or jnp.cos(x)
    inner = jax.jit(lambda x: by_platform(sine, cosine, x))
    both = jax.jit(lambda x: by_platform(inner, lambda x: inner(x) + 1, inner(x))).trace(jnp.ones(3))
    assert traced == ["sine", "cosine"] * 2
    for platform, (form, other) in {"cpu": ("sine", "cosine"), "cuda": ("cosine", "sine")}.items():
        text = both.lower(lowering_platforms=(platform,)).as_text()
        assert text.count(f"stablehlo.{form}") == 2 and f"stablehlo.{other}" not in text


def test_a_form_for_accelerators_in_a_choice_of_three_is_not_for_gpus():
    traced = []
    form = lambda name: lambda x: traced.append(name) or x
    inner = lambda x: by_platform(form("cpu"), form("tpu"), x, gpu=form("gpu"))
    jax.make_jaxpr(lambda x: by_platform(form("no"), inner, x, gpu=form("no")))(jnp.ones(3))
    assert set(traced) == {"no", "tpu"}


def test_the_devices_of_a_mesh_decide():
    text = jax.jit(on_devices_of(mesh_of(2), lambda x: by_platform(jnp.sin, jnp.cos, x)))
    text = text.trace(jnp.ones(3)).lower(lowering_platforms=("cuda",)).as_text()
    assert "stablehlo.sine" in text and "stablehlo.cosine" not in text, "these devices are a CPU's"


@pytest.mark.parametrize(("row_bytes", "rows"), [(1, [50, 50]), (2**16, [16, 50]), (2**28, [2, 16]), (2**40, [2, 2])])
def test_as_many_rows_at_once_as_fit_the_platform(row_bytes, rows):
    seen = []

    def function(rows, x):
        seen.append(rows)
        return x * rows

    run = jax.jit(side_by_side(function, row_bytes, 50))
    assert run(jnp.ones(3)).tolist() == [rows[0]] * 3
    assert seen == sorted(set(rows))
    text = run.trace(jnp.ones(3)).lower(lowering_platforms=("tpu",)).as_text()
    assert f"dense<{float(rows[1]):e}>" in text
    seen.clear()
    side_by_side(function, row_bytes, 1)(jnp.ones(3))
    assert seen == [1], "there is one row"


@pytest.mark.parametrize("name", ["row_bytes", "most", "budget"])
def test_bad_sizes(name):
    with pytest.raises(ValueError, match=f"^{name} must be an integer >= 1, got 0"):
        fitting(**{"row_bytes": 1, "most": 1, "budget": 1, name: 0})
