"""The folder of a run, file by file, and the module that knows each. `run_writer` writes them all during a run.

- `manifest.json`, before the first round: versions, device, commit, key and arguments (`manifest` collects them,
  `run_folder.create` writes them).
- `facts.json`: what a resumed run must find again, as digests of data, parameters and programs (`facts`).
- `log.jsonl`: a line for each run after each chunk of rounds (`log_file`).
- `checkpoint/`: finished chunks and the state after them, until the run has ended (`checkpoint`).
  `runs.chunk_loop` decides when one is written: every `Keep.every` rounds, at SIGTERM, and at the end.
- `result.nc`, when the run has ended: the dataset that `simulate` or `sweep` returned (`result_dataset` builds it,
  `run_folder.save` writes it).

`run_folder` makes the folder and reads it, `owner_lock` keeps other processes out of it, `run_list` finds the runs
below a folder, `digests` hashes arrays, `measured_names` keeps what is measured apart from the axes of a
sweep, and `atomic_file` writes a file whole or not at all.
"""
