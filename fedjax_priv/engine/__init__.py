"""One round on devices: clients in blocks, blocks over devices, and the transaction that commits or rejects a round.

- `round`: the steps of a round. `transaction`: which groups and rounds fail, and what state they leave.
- `upload`: clients train and upload. `sums_of_updates`: the same where only a sum is wanted, without a row for each.
- `blocks`: clients in blocks over devices. `mesh`: the devices.
- `side_by_side`: how many rows are computed at once, and in which form, by sizes and by the platform of a program.
- `live_bytes`: how much memory a function needs, before it is compiled.
- `client_rows`: chooses, takes and puts back rows of clients. `batched_switch`: a branch that `vmap` does not merge.
- `normal_draws`: Gaussian noise with a long tail, for privacy.
- `calls`: an error in a user's function says in which one.
- `processes`: one run over several processes.
"""
