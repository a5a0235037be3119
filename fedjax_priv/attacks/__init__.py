"""What Byzantine clients, or a server that lies, do instead of what the protocol says.

- `on_values/`: attacks on the values they send, one a file.
- `on_coordinates`: attacks on the coordinates they propose in consensus sparsification.
- `field_elements`: attacks on what they put into a secure sum, after the quantizer.
- `on_groups`: attacks on the means of groups, which are all that a server sees of a secure sum.
- `backdoors`: a trigger in what they train on, and updates that outweigh the others.
- `on_labels`: attacks on the labels they train on.
- `lying_servers`: false lists of survivors that a server tells clients.
- `lying_models`: models that a server gives to some clients and not to others.
- `property_detectors`: models of which one unit fires on a property of a client's data.
- `tampered_layers`: models with one layer changed.
- `replayed_rounds`: a round that a server repeats without one client.
- `attack_layers`: what an attack on values is, and layers that insert one into a stack; a system chooses the place.
- `honest_statistics`: mean, standard deviation and rows of honest clients, which an omniscient attacker knows.
- `by_name`: every public attack, by the name a user chooses it with.
"""

from typing import TYPE_CHECKING

from fedjax_priv._lazy import lazy_names

if TYPE_CHECKING:
    from fedjax_priv.attacks.attack_layers import AnyAttack, Attack, FromHistory, on_sparse, on_updates
    from fedjax_priv.attacks.backdoors import PixelTrigger, model_replacement, plant_backdoor
    from fedjax_priv.attacks.field_elements import (
        FieldAttack,
        mean_replacement,
        on_field_elements,
        random_elements,
        sum_replacement,
    )
    from fedjax_priv.attacks.lying_models import gradient_suppression
    from fedjax_priv.attacks.lying_servers import both_secrets, split_lists
    from fedjax_priv.attacks.on_coordinates import CoordinateAttack, honest_set, random_set, same_set, smallest
    from fedjax_priv.attacks.on_groups import before_groups, on_group_means
    from fedjax_priv.attacks.on_labels import flip_labels
    from fedjax_priv.attacks.on_values.alie import alie, baruch_z
    from fedjax_priv.attacks.on_values.distance_bounded import min_max, min_sum
    from fedjax_priv.attacks.on_values.foe import foe
    from fedjax_priv.attacks.on_values.gaussian import gaussian
    from fedjax_priv.attacks.on_values.infinite import infinite
    from fedjax_priv.attacks.on_values.mimic import mimic
    from fedjax_priv.attacks.on_values.one_of import one_of
    from fedjax_priv.attacks.on_values.orthogonal import orthogonal_perturbation, relocated_perturbation
    from fedjax_priv.attacks.on_values.searched import furthest, optimal_alie, optimal_foe
    from fedjax_priv.attacks.on_values.sign_flip import sign_flip
    from fedjax_priv.attacks.property_detectors import detector_coordinates, property_detector
    from fedjax_priv.attacks.replayed_rounds import replay
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = [
    "AnyAttack", "Attack", "CoordinateAttack", "FieldAttack", "FromHistory", "PixelTrigger", "alie", "baruch_z",
    "before_groups", "both_secrets", "detector_coordinates", "flip_labels", "foe", "furthest", "gaussian",
    "gradient_suppression",
    "honest_set", "infinite", "mean_replacement", "mimic", "min_max", "min_sum", "model_replacement",
    "on_field_elements", "on_group_means", "on_sparse", "on_updates", "one_of", "optimal_alie", "optimal_foe",
    "orthogonal_perturbation", "plant_backdoor", "property_detector", "random_elements", "random_set",
    "relocated_perturbation", "replay", "same_set", "sign_flip", "smallest", "split_lists", "sum_replacement",
]  # fmt: skip
