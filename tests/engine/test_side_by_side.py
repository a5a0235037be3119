import jax
import jax.numpy as jnp
import pytest

from fedjax_priv.engine.side_by_side import ACCELERATOR_BYTES, CPU_CACHE_BYTES, by_platform, fitting


@pytest.mark.parametrize("platform", ["cpu", "cuda", "tpu"])
def test_the_platform_of_the_program_chooses_the_form(platform):
    choose = jax.jit(lambda x: by_platform(jnp.sin, jnp.cos, x))
    text = choose.trace(jnp.ones(3)).lower(lowering_platforms=(platform,)).as_text()
    assert ("stablehlo.sine" in text, "stablehlo.cosine" in text) == (platform == "cpu", platform != "cpu")


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


def test_an_accelerator_holds_more():
    rows = [fitting(4 * 159_010, 1_000, budget) for budget in (CPU_CACHE_BYTES, ACCELERATOR_BYTES)]
    assert rows[0] < 16 and rows[1] == 1_000


@pytest.mark.parametrize("name", ["row_bytes", "most", "budget"])
def test_bad_sizes(name):
    with pytest.raises(ValueError, match=f"^{name} must be an integer >= 1, got 0"):
        fitting(**{"row_bytes": 1, "most": 1, "budget": 1, name: 0})
