"""Many rounds: one run (`simulate`), or a run at every point of a grid (`sweep`).

- `simulation`, `sweep`: the two functions that a user calls. `checks`: checks their arguments.
- `ending`: what happens at the end, at SIGTERM, at Ctrl-C and after an error.
- `chunk_loop`: runs chunk after chunk, and decides when to log and when to write a checkpoint.
- `grid`, `shared_programs`, `waves`: the points of a sweep, which of them share a program, which run side by side.
- `progress`: the bar on the terminal. `failures`: the warning if no round succeeded.
- `programs`: compiles runs. `records`: writes them to a folder.
"""
