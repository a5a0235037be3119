"""One round on devices: clients in blocks, blocks over devices, and the transaction that commits or rejects a round.

- `round`: the steps of a round. `transaction`: which groups and rounds fail, and what state they leave.
- `blocks`: clients in blocks over devices. `fastest_block`: measures which block is fastest; the default of all systems
  is `base.DEFAULT_BLOCK`. `mesh`: the devices.
- `client_rows`: chooses, takes and puts back rows of clients. `batched_switch`: a branch that `vmap` does not merge.
- `processes`: one run over several processes.
"""
