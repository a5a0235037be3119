"""The layers of a protocol; each has a client half above and a server half below.

- `stacking`: `stack` of layers into one; `stateless` makes a layer from functions.
- `clipping`, `weighting`, `quantization`: bounded norms, weights and means, rounding into the field.
- `noise_gaussian`, `noise_skellam`: noise that clients add for differential privacy.
- `sparsification`, `common_subset`, `consensus_sparsification`: fewer coordinates, chosen by each client, by a public
  seed, or by a vote; `coordinate_sets` draws random ones.
- `in_the_clear`, `mask`, `sparse_mask`, `enrolled_mask`: innermost layers, without and with secure aggregation.
- `analog_alignment`: innermost layer of analog uploads, and the power control above it.
- `group_sums`: how uploads add up by group.
- `secure_sum/`: what is inside a secure sum.
"""

from typing import TYPE_CHECKING

from fedjax_priv._lazy import lazy_names

if TYPE_CHECKING:
    from fedjax_priv.layers.analog_alignment import align, waveform
    from fedjax_priv.layers.clipping import clip
    from fedjax_priv.layers.common_subset import common_coordinates
    from fedjax_priv.layers.consensus_sparsification import conspar
    from fedjax_priv.layers.enrolled_mask import enrolled_masks
    from fedjax_priv.layers.group_sums import field_sum, fixed_point_sum, float_sum
    from fedjax_priv.layers.in_the_clear import plain, plain_field
    from fedjax_priv.layers.mask import pairwise_masks
    from fedjax_priv.layers.noise_gaussian import gaussian_noise
    from fedjax_priv.layers.noise_skellam import skellam_noise
    from fedjax_priv.layers.quantization import quantize
    from fedjax_priv.layers.sparse_mask import sparse_masks
    from fedjax_priv.layers.sparsification import plain_sparse, rand_k, top_k
    from fedjax_priv.layers.stacking import stack, stateless
    from fedjax_priv.layers.weighting import average, over_the_air_mean, public_weighted_mean, scale, weighted_mean
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = [
    "align", "average", "clip", "common_coordinates", "conspar", "enrolled_masks", "field_sum", "fixed_point_sum",
    "float_sum", "gaussian_noise", "over_the_air_mean", "pairwise_masks", "plain", "plain_field", "plain_sparse",
    "public_weighted_mean", "quantize", "rand_k", "scale", "skellam_noise", "sparse_masks", "stack", "stateless",
    "top_k", "waveform", "weighted_mean",
]  # fmt: skip
