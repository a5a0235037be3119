"""The layers of a protocol: the client half above, the server half below."""

from fedjax_priv.layers.align import align, waveform
from fedjax_priv.layers.clip import clip
from fedjax_priv.layers.combine import field_sum, fixed_point_sum, float_sum
from fedjax_priv.layers.common import common_coordinates
from fedjax_priv.layers.conspar import conspar
from fedjax_priv.layers.enrolled import enrolled_masks
from fedjax_priv.layers.mask import pairwise_masks
from fedjax_priv.layers.noise import gaussian_noise
from fedjax_priv.layers.plain import plain, plain_field
from fedjax_priv.layers.quantize import quantize
from fedjax_priv.layers.scale import average, over_the_air_mean, public_weighted_mean, scale, weighted_mean
from fedjax_priv.layers.skellam import skellam_noise
from fedjax_priv.layers.sparse_mask import sparse_masks
from fedjax_priv.layers.sparsify import plain_sparse, rand_k, top_k
from fedjax_priv.layers.stack import stack, stateless

__all__ = [
    "align",
    "average",
    "clip",
    "common_coordinates",
    "conspar",
    "enrolled_masks",
    "field_sum",
    "fixed_point_sum",
    "float_sum",
    "gaussian_noise",
    "over_the_air_mean",
    "pairwise_masks",
    "plain",
    "plain_field",
    "plain_sparse",
    "public_weighted_mean",
    "quantize",
    "rand_k",
    "scale",
    "skellam_noise",
    "sparse_masks",
    "stack",
    "stateless",
    "top_k",
    "waveform",
    "weighted_mean",
]
