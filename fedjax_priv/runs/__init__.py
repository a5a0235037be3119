"""Many rounds: one run (`simulate`), or a run at every point of a grid (`sweep`).

- `simulation`, `sweep`: what a user calls; `ending` is how both end, `checks` what they refuse.
- `chunk_loop`: runs chunk after chunk, and decides when to log and when to write a checkpoint.
- `grid`, `shared_programs`, `waves`: the points of a sweep, which of them share a program, which run side by side.
- `progress`, `sigterm`: the bar on the terminal; the signal that ends a run.
- `programs`: compiles runs. `records`: writes them to a folder.
"""
