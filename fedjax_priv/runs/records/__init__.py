"""The folder of a run: its files, and the module for each file. `run_writer` writes all of them during a run.

- `manifest.json`, before the first round: versions, device, commit, key and arguments (`manifest` collects them,
  `run_folder.create` writes them).
- `facts.json`: digests of data, parameters and programs, which a resumed run must have too (`facts`).
- `log.jsonl`: a line per run before the first round and after each chunk of rounds (`log_file`).
- `checkpoint/`: finished chunks and the state after them, until the run has ended (`checkpoint`).
  `runs.chunk_loop` decides when one is written: every `Keep.every` rounds, at SIGTERM, and at the end.
- `result.nc`, when the run has ended: the dataset that `simulate` or `sweep` returned (`result_dataset` builds it,
  `run_folder.save` writes it).

`run_folder` makes the folder and reads it, `owner_lock` keeps other processes out of it, `run_list` finds the runs
below a folder, `digests` hashes arrays, `mechanism` writes down what privacy rests on besides who came,
`measured_names` renames measured variables that have the name of an axis, and `atomic_file` writes a file whole or not
at all.
"""
