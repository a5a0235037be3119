import inspect
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from refusals import refused

from fedjax_priv import models
from fedjax_priv.interchange import from_numpy, to_numpy

PARAMS = {
    "a": {"w": np.arange(6, dtype=np.float32).reshape(2, 3)},
    "b": [np.ones(2, np.float32), np.zeros((), np.float32)],
}
ARRAYS = {"a.w": PARAMS["a"]["w"], "b.0": PARAMS["b"][0], "b.1": PARAMS["b"][1]}


def test_names_and_back_by_way_of_a_file(tmp_path):
    arrays = to_numpy(jax.tree.map(jnp.asarray, PARAMS))
    assert arrays.keys() == ARRAYS.keys()
    np.savez(tmp_path / "model.npz", **arrays)
    back = from_numpy(PARAMS, np.load(tmp_path / "model.npz"))
    jax.tree.map(np.testing.assert_array_equal, back, PARAMS)


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float8_e4m3fn, jnp.float16, jnp.int4, jnp.uint4])
def test_types_that_a_file_of_numpy_cannot_hold_come_back_as_they_were(tmp_path, dtype):
    params = {"w": jnp.asarray([-2.0, 0.0, 1.5, 7.0] if jnp.issubdtype(dtype, jnp.floating) else [0, 1, 3, 7], dtype)}
    np.savez(tmp_path / "model.npz", **to_numpy(params))
    arrays = np.load(tmp_path / "model.npz")
    assert arrays["w"].dtype.kind in "fi" and arrays["w"].tolist() == params["w"].tolist()
    again = from_numpy(params, arrays)["w"]
    assert again.dtype == dtype and again.tolist() == params["w"].tolist()


def test_bytes_of_a_type_that_the_file_did_not_hold_are_named():
    with pytest.raises(ValueError, match=r"^w must be numbers that fit bfloat16, got \|V2$"):
        from_numpy({"w": jnp.zeros(3, jnp.bfloat16)}, {"w": np.zeros(3, "V2")})


def test_shapes_are_a_template_and_float64_is_cast():
    model = models.mlp((2, 2), 3, hidden=(4,))
    template = jax.eval_shape(model.init, jax.random.key(0))
    rng = np.random.default_rng(0)
    arrays = {
        "Dense_0.kernel": rng.normal(size=(4, 4)), "Dense_0.bias": rng.normal(size=4),
        "Dense_1.kernel": rng.normal(size=(4, 3)), "Dense_1.bias": rng.normal(size=3),
    }  # fmt: skip
    params = from_numpy(template, arrays)
    assert {leaf.dtype for leaf in jax.tree.leaves(params)} == {np.dtype(np.float32)}
    x = rng.normal(size=(5, 2, 2))
    hidden = np.maximum(x.reshape(5, 4) @ arrays["Dense_0.kernel"] + arrays["Dense_0.bias"], 0)
    expected = hidden @ arrays["Dense_1.kernel"] + arrays["Dense_1.bias"]
    np.testing.assert_allclose(jax.jit(model.apply)(params, np.float32(x)), expected, rtol=1e-4, atol=1e-5)


test_what_does_not_fit_is_named = refused(
    ({"a.w": ARRAYS["a.w"], "c": 0, "b.0": 0}, r"missing \['b.1'\], unknown \['c'\]"),
    (ARRAYS | {"c": 0}, r"missing \[\], unknown \['c'\]"),
    (ARRAYS | {"a.w": ARRAYS["a.w"].T}, r"a.w must have shape \(2, 3\), got \(3, 2\)"),
    (ARRAYS | {"a.w": ARRAYS["a.w"] + 1j}, "a.w must be numbers that fit float32, got complex64"),
    (ARRAYS | {"a.w": np.full((2, 3), "a")}, "a.w must be numbers that fit float32, got <U1"),
    by=lambda arrays: from_numpy(PARAMS, arrays),
    pattern="{}",
)


@pytest.mark.parametrize(
    ("dtype", "value", "got"),
    [
        (jnp.float32, 1e300, "1e+300"), (jnp.float32, -1e39, "-1e+39"), (jnp.float16, 70_000, "70000"),
        (jnp.bfloat16, 3.4e38 * 1.5, "5.1"), (jnp.float8_e4m3fn, 1000.0, "1000.0"), (jnp.complex64, 1e300j, "1e+300j"),
        (jnp.int32, 2**31, "2147483648"), (jnp.int32, -(2**40), "-1099511627776"), (jnp.int32, 1.5, "1.5"),
        (jnp.int32, np.nan, "nan"), (jnp.uint8, -1, "-1"), (jnp.int4, 8, "8"), (bool, 2, "2"),
        (jnp.uint32, 2**40, "1099511627776"),
    ],
)  # fmt: skip
def test_a_number_that_the_type_cannot_hold_is_named(dtype, value, got):
    fits = f"^w must be numbers that fit {np.dtype(dtype)}, got .*{re.escape(got)}"
    with pytest.raises(ValueError, match=fits):
        from_numpy({"w": jnp.zeros(2, dtype)}, {"w": np.array([0, value])})
    with pytest.raises(ValueError, match=fits):
        from_numpy({"w": jnp.zeros((), dtype)}, {"w": value})


def test_numbers_may_be_rounded_and_infinite_and_integers_of_another_type():
    template = {"w": jnp.zeros(4), "k": jnp.zeros(2, jnp.int32), "none": jnp.zeros(0)}
    given = {"w": np.array([0.1, 1e-300, np.inf, np.nan]), "k": np.array([-(2.0**31), 5.0]), "none": np.zeros(0)}
    made = from_numpy(template, given)
    np.testing.assert_array_equal(made["w"], given["w"].astype(np.float32))
    assert made["k"].tolist() == [-(2**31), 5]


def test_a_name_for_two_arrays_is_refused():
    with pytest.raises(ValueError, match="'a.w' twice"):
        to_numpy({"a.w": np.zeros(1), "a": {"w": np.zeros(1)}})


def test_arrays_come_by_name():
    with pytest.raises(ValueError, match="^arrays must be arrays by name, such as those of np.load, got list$"):
        inspect.unwrap(from_numpy)({"w": jnp.zeros(2)}, [np.zeros(2)])
