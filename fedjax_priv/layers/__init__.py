"""The layers of a protocol; each has a client half above and a server half below.

- `stacking`: `stack` of layers into one; `stateless` makes a layer from functions.
- `clipping`, `weighting`, `quantization`: bounded norms, weights and means, rounding into the field. `fixed_point`:
  floats as integers that add to the same bits in any order.
- `staleness`: means in which updates from older models weigh less.
- `rotation`, `rounding`, `wrapping`: a random rotation, rounding to short integer vectors, and integers modulo a power
  of two, for sums of few bits; `rounded_norm` says how long rounded vectors get.
- `noise_gaussian`, `noise_skellam`, `noise_discrete_gaussian`: noise that clients add for differential privacy;
  `noise_as_one`: Gaussian noise of all that the channel draws.
- `sparsification`, `common_subset`, `consensus_sparsification`: fewer coordinates, chosen by each client, by a public
  seed, or by a vote; `coordinate_sets` draws random ones.
- `located_field`, `thresholded_mask`, `opened_coordinates`: sums that a committee opens only where enough clients sent
  a coordinate, and what is made of the rest.
- `sketching`: a random projection from a public seed.
- `in_the_clear`, `mask`, `sparse_mask`, `enrolled_mask`, `committee_mask`, `coded_mask`, `one_shot_mask`: innermost
  layers, without and with secure aggregation.
- `input_validation`: uploads beyond a norm are left out, as zero-knowledge proofs allow; `proof_sizes` of them.
  `random_projections`: RiseFL's test of a norm; `noisy_norm`: how long vectors get when noise is added.
- `range_check`: sums that no honest clients can have are left out.
- `analog_alignment`: innermost layer of analog uploads, and the power control above it; `receive_level`: how strong
  they arrive; `level_plans`, `level_budget`: levels that depend on those of rounds before.
- `channel_symbols`: one or two coordinates in each complex use of a channel whose gains clients do not know.
- `blind_combining`: clients that know nothing of their channel, and antennas that are combined; `sum_pilots`: by which
  the server learns how.
- `stochastic_levels`: digital uploads of few bits, and the uses of a link that they take.
- `votes`: one bit a coordinate, over the air or not.
- `group_sums`: how uploads add up by group.
- `secure_sum/`: what is inside a secure sum.
"""

from typing import TYPE_CHECKING

from fedjax_priv._lazy import lazy_names

if TYPE_CHECKING:
    from fedjax_priv.layers.analog_alignment import align, waveform
    from fedjax_priv.layers.blind_combining import blind_mean
    from fedjax_priv.layers.channel_symbols import complex_symbols
    from fedjax_priv.layers.clipping import clip
    from fedjax_priv.layers.coded_mask import coded_masks
    from fedjax_priv.layers.committee_mask import committee_masks
    from fedjax_priv.layers.common_subset import common_coordinates
    from fedjax_priv.layers.consensus_sparsification import conspar
    from fedjax_priv.layers.enrolled_mask import enrolled_masks
    from fedjax_priv.layers.group_sums import field_sum, fixed_point_sum, float_sum
    from fedjax_priv.layers.in_the_clear import plain, plain_field, plain_ring
    from fedjax_priv.layers.input_validation import validate_norm
    from fedjax_priv.layers.level_budget import within_budget
    from fedjax_priv.layers.level_plans import planned_levels
    from fedjax_priv.layers.located_field import on_sparse_values, paired_coordinates, plain_sparse_field
    from fedjax_priv.layers.mask import pairwise_masks
    from fedjax_priv.layers.noise_discrete_gaussian import discrete_gaussian_noise
    from fedjax_priv.layers.noise_gaussian import gaussian_noise
    from fedjax_priv.layers.noise_skellam import integer_skellam_noise, skellam_noise
    from fedjax_priv.layers.one_shot_mask import one_shot_masks
    from fedjax_priv.layers.opened_coordinates import opened_top_k, over_opened
    from fedjax_priv.layers.quantization import quantize
    from fedjax_priv.layers.range_check import check_range, largest_element
    from fedjax_priv.layers.receive_level import Levels, weakest
    from fedjax_priv.layers.rotation import rotate
    from fedjax_priv.layers.rounding import round_within
    from fedjax_priv.layers.sketching import jl
    from fedjax_priv.layers.sparse_mask import sparse_masks
    from fedjax_priv.layers.sparsification import plain_sparse, rand_k, top_k
    from fedjax_priv.layers.stacking import stack, stateless
    from fedjax_priv.layers.staleness import discounted_mean, mean_by_factors
    from fedjax_priv.layers.stochastic_levels import coded, qsgd, uniform_levels
    from fedjax_priv.layers.thresholded_mask import thresholded_masks
    from fedjax_priv.layers.votes import invert_gains, plain_signs, sign, tones
    from fedjax_priv.layers.weighting import average, over_the_air_mean, public_weighted_mean, scale, weighted_mean
    from fedjax_priv.layers.wrapping import wrap
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = [
    "Levels", "align", "average", "blind_mean", "check_range", "clip", "coded", "coded_masks", "committee_masks",
    "common_coordinates", "complex_symbols", "conspar", "discounted_mean", "discrete_gaussian_noise", "enrolled_masks",
    "field_sum", "fixed_point_sum", "float_sum", "gaussian_noise", "integer_skellam_noise", "invert_gains", "jl",
    "largest_element", "mean_by_factors", "on_sparse_values", "one_shot_masks", "opened_top_k", "over_opened",
    "over_the_air_mean", "paired_coordinates", "pairwise_masks", "plain", "plain_field", "plain_ring", "plain_signs",
    "plain_sparse", "plain_sparse_field", "planned_levels", "public_weighted_mean", "qsgd", "quantize", "rand_k",
    "rotate", "round_within", "scale", "sign", "skellam_noise", "sparse_masks", "stack", "stateless",
    "thresholded_masks", "tones", "top_k", "uniform_levels", "validate_norm", "waveform", "weakest", "weighted_mean",
    "within_budget", "wrap",
]  # fmt: skip
