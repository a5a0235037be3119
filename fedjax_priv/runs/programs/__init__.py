"""From an algorithm and its data to compiled programs; each runs a chunk of rounds.

- `run_program`: data and state of all clients are on the devices. `pool_program`: they are on the host, for populations
  that do not fit the devices; `host_rows`: client state there.
- `layout`: how runs and clients are spread over the devices. `evaluation`: what is measured between chunks.
- `lowering`: a program's digest and memory. `kept_programs`: keeps whole compiled programs in a folder.
"""
