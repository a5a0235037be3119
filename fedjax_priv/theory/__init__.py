"""What the papers prove, in float64 NumPy and SciPy: no JAX; neither this nor the simulation imports the other.

One package for each paper (`wireless`, `cdp_fl`, `sparse_secagg`, `fedrep`), one for each mechanism (`gaussian`,
`sampled_gaussian`, `skellam`, `discrete_gaussian`, `integer_shift`, `zcdp`, `correlated_noise`), for `trade_off`
curves, for `secagg_plus`, `robust_rules`, `byzantine_cohorts`, `input_validation`, `lying_server`, `digital_links`,
`quantizers` and `votes`. A function about one setting takes one NamedTuple, such as `wireless.Round`, whose fields say
their symbol in the paper and their range.

Every function raises ValueError if an argument, or a field of one, is outside its range: the error names it, what it
got and the range. `Raises` in a docstring lists other conditions.
"""
