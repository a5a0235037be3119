"""From an algorithm and its data to compiled programs; each runs a chunk of rounds.

- `run_program`: clients' data and state on the devices. `pool_program`: on the host, where the population is too large.
- `layout`: how runs and clients are spread over the devices. `evaluation`: what is measured between chunks.
- `host_rows`: client state kept on the host. `lowering`: a program's digest and memory. `kept_programs`: whole
  compiled programs in a folder.
"""
