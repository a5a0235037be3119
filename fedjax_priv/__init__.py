"""Private, communication-efficient and Byzantine-robust federated learning, a whole round in one jitted function."""
