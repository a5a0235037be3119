"""Who attacks and whom a rule trusts: what systems refuse, in sentences that `systems.composition` says too."""

from typing import Any

from fedjax_priv import _validate
from fedjax_priv.base import Aggregator
from fedjax_priv.base.byzantine_clients import Byzantine, byzantine_mask, how_many

BOTH_ATTACKS = "group_attack must not be given with attack: a Byzantine client sends one update, got both"


def distrust(aggregate: Aggregator, num_clients: int, clients_in_a_row: int, byzantine: Byzantine) -> str | None:
    """Why a rule cannot trust the row that it trusts, in a sentence; None if it can, or trusts none.

    Args:
      aggregate: the rule.
      num_clients: all of them have a place in a row.
      clients_in_a_row: those whose uploads are added up in a row.
      byzantine: the first clients that are, or a mask of all.
    """
    row = aggregate.trusted_row
    if row is None:
        return None
    _validate.integer(at_least=0, **{"aggregate.trusted_row": row})
    if clients_in_a_row > 1:
        return f"aggregate must trust no row where a row is {clients_in_a_row} clients, drawn anew each round"
    if row >= num_clients:
        return f"aggregate must trust a row below num_clients = {num_clients}, got row {row}"
    honest = ~byzantine_mask(num_clients, num_byzantine=byzantine)
    if honest[row]:
        return None
    return f"aggregate must trust an honest client, such as client {honest.argmax()}, got Byzantine client {row}"


def check_trust(aggregate: Aggregator, num_clients: int, clients_in_a_row: int, byzantine: Byzantine) -> None:
    """Checks that the row which a rule trusts, if any, is an honest client; arguments as of `distrust`.

    Raises:
      ValueError: it is not.
    """
    if sentence := distrust(aggregate, num_clients, clients_in_a_row, byzantine):
        raise ValueError(sentence)


def of_nobody(byzantine: Byzantine, **attacks: Any) -> str | None:
    """Why attacks, by argument, are refused without a Byzantine client, in a sentence; None if there is one of neither.

    Args:
      byzantine: how many clients are, or a mask of them.
      **attacks: None: there is no such attack.
    """
    name = next((name for name, attack in attacks.items() if attack is not None), None)
    if name is None or how_many(byzantine):
        return None
    return f"num_byzantine must be at least 1 with {name}, got 0: an attack of nobody would look harmless"


def check_attackers(byzantine: Byzantine, **attacks: Any) -> None:
    """Checks that a Byzantine client carries an attack out; arguments as of `of_nobody`.

    Raises:
      ValueError: nobody does.
    """
    if sentence := of_nobody(byzantine, **attacks):
        raise ValueError(sentence)
