import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_priv import _validate


@pytest.mark.parametrize("value", ["0.5", True, None, np.nan, -1, [0.5, 0.5]])
@pytest.mark.parametrize(
    "check", [_validate.positive, _validate.non_negative, _validate.fraction, _validate.below_half]
)
def test_what_is_no_number_in_range_is_refused_by_name(check, value):
    with pytest.raises(ValueError, match="^rate must be a .*number"):
        check(rate=value)


@pytest.mark.parametrize("value", ["0.5", True, None, np.nan, -np.inf, [0.5, 0.5]])
def test_what_is_not_finite_is_refused_by_name(value):
    with pytest.raises(ValueError, match="^rate must be a finite number, got"):
        _validate.finite(rate=value)


@pytest.mark.parametrize("value", [True, 2.0, "2", 1, None, np.array([2, 3])])
def test_what_is_no_integer_in_range_is_refused_by_name(value):
    with pytest.raises(ValueError, match="^size must be an integer >= 2, got"):
        _validate.integer(at_least=2, size=value)


def test_what_is_in_range_passes():
    _validate.integer(at_least=2, a=2, b=np.int64(7))
    _validate.positive(a=1e-9, b=np.float32(2), c=jnp.float32(3))
    _validate.finite(a=-1, b=0.0, c=jnp.float32(3))
    _validate.fraction(a=0, b=1, c=0.5)
    _validate.below_half(a=0, b=0.499)
    _validate.one_of(("x",), a="x")


def test_some_client_must_have_a_chance():
    _validate.chances(p=0.1, q=np.array([0.0, 1.0]))
    jax.jit(lambda p: _validate.chances(p=p))(jnp.zeros(2))
    for value in (0.0, np.zeros(3)):
        with pytest.raises(ValueError, match=r"^p must be in \[0, 1\], and above 0 for at least one client, got"):
            _validate.chances(q=1.0, p=value)
    with pytest.raises(ValueError, match=r"^p must be a number in \[0, 1\], got 1.5"):
        _validate.chances(p=np.array([1.5, 0.5]))


@pytest.mark.parametrize(("how", "value"), [({"below_one": True}, 1), ({"above_zero": True}, 0)])
def test_ends_can_be_excluded(how, value):
    _validate.fraction(rate=value)
    with pytest.raises(ValueError, match="^rate must be a number in"):
        _validate.fraction(rate=value, **how)


def test_a_half_is_not_below_a_half():
    with pytest.raises(ValueError, match=r"^rate must be a number in \[0, 1/2\), got 0.5$"):
        _validate.below_half(rate=0.5)


def test_a_share_that_shapes_depend_on_is_not_traced():
    with pytest.raises(ValueError, match="^rate must be known when the program is compiled"):
        jax.eval_shape(lambda rate: _validate.below_half(rate=rate), 0.1)


def test_traced_values_pass_and_turn_to_nan_out_of_range():
    def run(value):
        _validate.positive(value=value)
        return _validate.or_nan(value, at_least=0, below=1)

    assert np.isnan(jax.jit(jax.vmap(run))(jnp.array([-0.1, 0.0, 0.5, 1.0]))).tolist() == [True, False, False, True]
    ends = jax.jit(jax.vmap(lambda value: _validate.or_nan(value, above=0, at_most=1)))(jnp.array([0.0, 0.5, 1.0, 1.1]))
    assert np.isnan(ends).tolist() == [True, False, False, True]
    assert _validate.or_nan(7.0, below=1) == 7.0, "known values were checked before"


@pytest.mark.parametrize(
    ("allowed", "value"),
    [
        (("x", "y"), np.ones((2, 2))),
        (("x", "y"), ["x"]),
        (("x", "y"), {"x": 1}),
        ({"x": 1}, ["x"]),
        ((True, False), np.array([True])),
        ((True, False), 1),
        ((True, False), np.int64(0)),
        ((True, False), "no"),
        ((1, 2), True),
        ((1, 2), np.True_),
        (range(1, 25), "3"),
        ((None, (1, 1)), (2, 1)),
    ],
)
def test_what_is_none_of_the_allowed_values_is_refused_by_name(allowed, value):
    with pytest.raises(ValueError, match="^choice must be one of .*, got"):
        _validate.one_of(allowed, choice=value)


def test_the_error_on_an_array_is_one_line():
    with pytest.raises(ValueError, match=r"^rate must be a finite number, got array\(\[\[1., 1.\], \[1., 1.\]\]\)$"):
        _validate.finite(rate=np.ones((2, 2)))


def test_where_nothing_is_allowed_the_error_says_so():
    with pytest.raises(ValueError, match="^choice has nothing to choose from here, got 'x'$"):
        _validate.one_of([], choice="x")


def test_a_traced_value_is_no_choice():
    with pytest.raises(ValueError, match="^choice must be one of 1, 2, got"):
        jax.eval_shape(lambda choice: _validate.one_of((1, 2), choice=choice), 1)


def test_numbers_and_truth_values_of_numpy_are_choices():
    _validate.one_of((True, False), a=np.True_, b=False)
    _validate.one_of((1, 2), a=np.int64(2), b=1, c=2.0)
    _validate.one_of(("x",), a=np.str_("x"))
    _validate.one_of(range(1, 25), a=np.int32(3))
    _validate.one_of((None, (1, 1)), a=None, b=(1, 1))


@pytest.mark.parametrize("value", [np.True_, np.array(True), jnp.array(True), np.array([True])])
def test_a_truth_value_is_no_number(value):
    with pytest.raises(ValueError, match="^rate must be a finite number > 0, got"):
        _validate.positive(rate=value)


@pytest.mark.parametrize("value", [np.True_, np.array(True), jnp.array(True)])
def test_a_truth_value_is_no_integer(value):
    with pytest.raises(ValueError, match="^size must be an integer >= 1, got"):
        _validate.integer(size=value)


@pytest.mark.parametrize("value", [np.array(2), jnp.int32(2)], ids=("NumPy", "JAX"))
def test_an_array_of_one_integer_is_none(value):
    """It cannot be hashed, and a comparison with it may be traced."""
    for check in (_validate.integer, _validate.seed):
        with pytest.raises(ValueError, match=r"^size must be an integer >= [01], got [aA]rray\(2"):
            check(size=value)


def test_the_last_integer_is_returned_as_pythons():
    assert type(_validate.integer(a=1, b=np.uint8(200))) is int and _validate.integer(a=1, b=np.uint8(200)) * 2 == 400


@pytest.mark.parametrize("value", [1e-46, 1e-60, 1e39, np.float64(1e-39)])
@pytest.mark.parametrize("check", [_validate.positive, _validate.non_negative, _validate.finite])
def test_what_float32_holds_as_0_or_infinity_is_refused(check, value):
    with pytest.raises(
        ValueError, match=r"^rate must be a number that float32 holds, of magnitude 1.2e-38 to 3.4e\+38, got"
    ):
        check(rate=value)
    with pytest.raises(ValueError, match="^rate must be "):
        _validate.array(check, rate=[1.0, value])


def test_an_integer_that_no_float_holds_is_refused():
    with pytest.raises(ValueError, match="^rate must be a finite number > 0, got 1000"):
        _validate.positive(rate=10**400)


def test_an_integer_that_int32_does_not_hold_is_taken_as_a_float():
    """JAX refuses Python's, and cuts NumPy's."""
    for check in (_validate.positive, _validate.non_negative, _validate.at_least_one):
        for value in (2**31, 3 * 10**9, np.int64(3 * 10**9)):
            assert jnp.sqrt(check(rate=value)) == np.sqrt(np.float32(value))
        assert type(check(rate=3)) is int


def test_what_is_no_number_of_a_program_may_be_tinier():
    _validate.fraction(above_zero=True, delta=1e-60)


def test_a_minority_is_below_a_half_and_a_number_of_them():
    for n, f in ((1, 0), (2, 0), (5, 2), (6, np.int64(2))):
        _validate.minority({"n": n}, f=f)
    for n, f, message in (
        (5, 3, "f must be below n / 2 = 2.5, got 3"), (6, 3, "f must be below n / 2 = 3, got 3"),
        (5, -1, "f must be an integer >= 0, got -1"), (5, True, "f must be an integer >= 0, got True"),
        (0, 0, "n must be an integer >= 1, got 0"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=f"^{message}$"):
            _validate.minority({"n": n}, f=f)


def test_the_ends_of_seeds_and_decibels():
    _validate.seed(a=0, b=2**32 - 1)
    _validate.decibels(a=-300, b=300.0)
    with pytest.raises(ValueError, match=f"^seed must be an integer below 2..32, got {2**32}$"):
        _validate.seed(seed=2**32)
    for bad in (-300.1, 300.1, np.nan):
        with pytest.raises(ValueError, match=rf"^snr_db must be a number of dB in \[-300, 300\], got {bad}$"):
            _validate.decibels(snr_db=bad)


@pytest.mark.parametrize("check", [_validate.each, _validate.array])
def test_no_number_at_all_is_refused(check):
    """Sums over it are 0, and a round would have it for one of every client."""
    with pytest.raises(ValueError, match=r"^rate must be a number or an array of numbers, got \[\]"):
        check(_validate.positive, rate=[])
