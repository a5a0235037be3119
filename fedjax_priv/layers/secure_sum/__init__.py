"""What is inside a secure sum: graph, shares, masks and their expansion.

- `circle`: which peers mask together.
- `sharing`: keys, seeds and their Shamir shares, as a round opens.
- `opening`: what survivors open, and what the server rebuilds and checks. `lists`: whom they are told to have survived.
- `committed_sums`: secrets of which only a sum is opened. `public_factors`: what shares say where the server multiplies
  uploads.
- `expansion`: masks from seeds, dense or only where a pair selects.
- `signed_sum`: the words of many pairs added up.
- `sparse_ones`: ones at random coordinates, and sums of the words there.
- `tiles`: as many users side by side as fit.
- `masked_sum`: the protocol over a group.
- `private_links`: what stands in for encryption between clients.
- `enrolment`: keys that clients agree on once, and those of a round that follow from them.
- `committee`: the clients that open a sum for all: who they are, what they hold, what it costs.
- `bound_masks`: masks for members of a committee, bound to the coordinates a client sends.
- `thresholded_opening`: what members open only where enough clients sent a coordinate.
- `bitmap`: sets of coordinates, one bit each.
- `alias_table`: draws from a table of probabilities.
"""
