"""Theorems of papers as functions, in float64 NumPy and SciPy, without JAX. The simulation does not import them.

There is a package for each paper (`wireless`, `cdp_fl`, `sparse_secagg`, `fedrep`), a module or package for each
mechanism (`gaussian`, `sampled_gaussian`, `skellam`, `discrete_gaussian`, `integer_shift`, `zcdp`, `correlated_noise`),
and modules for `trade_off` curves, `secagg_plus`, `robust_rules`, `byzantine_cohorts`, `input_validation`,
`lying_server`, `digital_links`, `quantizers` and `votes`. A function about one setting takes one NamedTuple, such as
`wireless.Round`, whose fields state their symbol in the paper and their range.

Every function raises ValueError if an argument, or a field of one, is outside its range: the error names the argument,
its value and the range. `Raises` in a docstring lists other conditions.
"""
