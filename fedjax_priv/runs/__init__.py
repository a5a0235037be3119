"""Many rounds: one run (`simulate`), or a run at every point of a grid (`sweep`).

- `simulation`, `sweep`: what a user calls. `checks`: what both refuse. `ending`: SIGTERM, Ctrl-C, errors, the end.
- `chunk_loop`: runs chunk after chunk, and decides when to log and when to write a checkpoint.
- `grid`, `shared_programs`, `waves`: the points of a sweep, which of them share a program, which run side by side.
- `progress`: the bar on the terminal. `failures`: a warning where no round succeeded.
- `programs`: compiles runs. `records`: writes them to a folder.
"""
