"""From an algorithm and its data to compiled programs, a chunk of rounds each."""
