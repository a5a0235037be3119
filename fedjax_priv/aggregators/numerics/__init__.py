"""Numerics on the server's rows `[g, d]`.

- `column_blocks`: work in blocks of columns that fit a core's cache; weighted sums, inner products and norms.
- `row_distances`: distances between rows, robust to a few rows that are far away or not finite.
- `order_statistics`: order statistics of each column, by sorting networks.
- `around_median`: the mean of the values nearest to the median, by column.
- `covariance`: largest eigenvalue of the weighted covariance of rows.
- `mean_shift`: the largest cluster of a few points.
- `subsets`: the best subset of rows, by trying all of them.
"""
