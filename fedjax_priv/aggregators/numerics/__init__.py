"""Numerics on the server's rows `[g, d]`.

- `column_blocks`: work in blocks of columns that fit a core's cache; weighted sums, inner products and norms.
- `row_distances`: distances between rows, robust to a few rows that are far away or not finite.
- `order_statistics`: order statistics of each column, by sorting networks.
- `covariance`: largest eigenvalue of the weighted covariance of rows.
- `subsets`: the best subset of rows, by trying all of them.
"""
