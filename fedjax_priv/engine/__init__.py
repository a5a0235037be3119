"""One round on devices: clients in blocks, blocks over devices, and the transaction that commits or rejects a round.

- `round`: the steps of a round. `transaction`: which groups and rounds fail, and what state they leave.
- `parts`: the parts of a system, checked against each other and the data; `returned_by_parts`: what they return.
- `server_step`: a step of the server's optimizer, and what it may not return.
- `upload`: clients train and upload. `sums_of_updates`: the same where only a sum is wanted, without a row for each.
- `blocks`: clients in blocks over devices. `mesh`: the devices. `state_placement`: where a state lies on them.
  `samples`: where a block finds its clients' samples.
- `side_by_side`: how many rows are computed at once, and in which form, by sizes and by the platform of a program.
- `batches`: many rows, some of them side by side, in one program.
- `all_runs`: one number for all members of a `vmap`, so that a branch or a loop stays one.
- `live_bytes`: how much memory a function needs, before it is compiled.
- `client_rows`: chooses, takes and puts back rows of clients. `batched_switch`: a branch that `vmap` does not merge.
- `products`, `quotients`: with the same bits in every block. `row_norms`: of rows of any size. `row_coordinates`: long
  rows in a basis of their span. `rounded_fractions`: how many a fraction of so many is.
- `versions`, `memory_of_models`: models that clients still train, and those they remember. `telling`: what an
  aggregator tells clients with the model.
- `calls`: an error in a user's function says in which one.
- `processes`: one run over several processes.
"""
