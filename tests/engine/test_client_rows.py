import jax.numpy as jnp

from fedjax_priv.engine.client_rows import put_rows, rows_of, rows_where
from helpers import cohort_of


def test_rows_where_chooses_rows_of_any_rank():
    keep = jnp.array([True, False])
    new, old = (jnp.ones((2, 3)), jnp.ones(2)), (jnp.zeros((2, 3)), jnp.zeros(2))
    got = rows_where(keep, new, old)
    assert got[0].tolist() == [[1, 1, 1], [0, 0, 0]]
    assert got[1].tolist() == [1, 0]


def test_rows_of_a_cohort_are_taken_and_put_back_by_client():
    population = {"a": jnp.arange(5), "b": jnp.arange(10.0).reshape(5, 2)}
    who = cohort_of(3)._replace(client=jnp.array([4, 0, 2]))
    taken = rows_of(who, population)
    assert taken["a"].tolist() == [4, 0, 2]
    assert taken["b"].tolist() == [[8, 9], [0, 1], [4, 5]]
    back = put_rows(who, jnp.array([True, False, True]), {"a": jnp.array([40, 50, 60]), "b": -taken["b"]}, population)
    assert back["a"].tolist() == [0, 1, 60, 3, 40]
    assert back["b"].tolist() == [[0, 1], [2, 3], [-4, -5], [6, 7], [-8, -9]]


def test_the_population_in_order_is_taken_as_it_is():
    rows, who = jnp.arange(4), cohort_of(4)
    assert rows_of(who, rows) is rows
    assert put_rows(who, jnp.array([False, True, False, True]), -rows, rows).tolist() == [0, -1, 2, -3]
