"""The laws that every part must keep, as checks; run them on your own part.

- `laws`: their numbers and names.
- `layer_laws`, `aggregator_laws`, `attack_laws`, `channel_laws`, `system_laws`: the checks.
- `single_layer_round`: a cohort by hand, and one round of one layer.
- `uniformity`: the statistical test of masked uploads.

Each check takes `variant`, so that chex runs a part with jit, without, and on a device:

    class TestMine(chex.TestCase):
        @chex.variants(with_jit=True, without_jit=True, with_device=True)
        def test_my_rule(self):
            check_aggregator(my_rule(), variant=self.variant)
"""

from typing import TYPE_CHECKING

from fedjax_priv._lazy import lazy_names

if TYPE_CHECKING:
    from fedjax_priv.testing.aggregator_laws import check_aggregator
    from fedjax_priv.testing.attack_laws import (
        check_attack,
        check_coordinate_attack,
        check_field_attack,
        check_label_attack,
    )
    from fedjax_priv.testing.channel_laws import check_channel, check_fading, check_fading_by_number
    from fedjax_priv.testing.laws import LAWS
    from fedjax_priv.testing.layer_laws import (
        NUM_CLIENTS,
        NUM_PARAMS,
        Case,
        check_bits,
        check_disclosure,
        check_draws,
        check_layer,
        check_round_trip,
        check_state,
        check_unbiased,
        check_unselected,
        check_variant,
        check_views,
    )
    from fedjax_priv.testing.single_layer_round import cohort_of, layer_round, run_layer, survivors, wire
    from fedjax_priv.testing.system_laws import check_system
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = [
    "LAWS", "NUM_CLIENTS", "NUM_PARAMS", "Case",
    "check_aggregator", "check_attack", "check_bits", "check_channel", "check_coordinate_attack", "check_disclosure",
    "check_draws", "check_fading", "check_fading_by_number", "check_field_attack", "check_label_attack", "check_layer",
    "check_round_trip", "check_state", "check_system", "check_unbiased", "check_unselected", "check_variant",
    "check_views", "cohort_of", "layer_round", "run_layer", "survivors", "wire",
]  # fmt: skip
