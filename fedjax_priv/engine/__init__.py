"""One round on devices: clients in blocks, blocks over devices, and the transaction that commits or refuses a round."""
