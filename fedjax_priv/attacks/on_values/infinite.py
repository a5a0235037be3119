"""Infinity in every coordinate, which breaks a rule that sums without looking at what it sums."""

import jax.numpy as jnp

from fedjax_priv.attacks.attack_layers import Attack


def infinite() -> Attack:
    """`+inf` everywhere (ByzFL's `Inf`). A layer that checks the range of uploads sets a status bit instead."""
    return lambda key, updates, honest: jnp.full_like(updates[:1], jnp.inf)
