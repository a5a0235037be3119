"""The command `fedjax-priv`. The library imports none of it.

- `main`: the commands and their options. `system_commands`: those with a subcommand for each system.
- `commands`: run, sweep and list. `audit_command`: audit. `bench`: bench. `demo.demo_command`: demo. `reproduce`: finds
  the scripts of reproduce.
- `program_cache`: where compiled programs are kept. `json_file`: the file of `--json`.
- `experiment`: a system, its data and its model from options. `byzantine`: rules and attacks from options.
- `run_options`: options of run and sweep. `options`, `option_types`: options from the signatures of functions.
  `help_from_docstrings`: their help, which is written as `Args` in the docstring of the function.
- `axes`: parses the axes of a sweep. `launch`: joins the processes of a run. `result_tables`: prints what
  run, sweep and list found. `terminal`: where tables are printed.
"""
