"""What the papers prove, in float64 NumPy and SciPy: no JAX; neither this nor the simulation imports the other.

One package for each paper (`wireless`, `cdp_fl`, `sparse_secagg`, `fedrep`), one module for each mechanism (`gaussian`,
`skellam`, `zcdp`) and for `secagg_plus`. A function about one setting takes one NamedTuple, such as `wireless.Round`,
whose fields say their symbol in the paper and their range; it raises ValueError for a field outside of it.
"""
