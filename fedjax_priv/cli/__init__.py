"""The command `fedjax-priv`. The library imports none of it.

- `main`: the commands and their options. `system_commands`: those with a subcommand for each system.
- `commands`: run, sweep and list. `audit_command`: audit. `bench`: bench. `demo.demo_command`: demo. `reproduce`: finds
  the scripts of reproduce. `plot_command`: plot. `atlas_command`: atlas. `suggestions`: the word that
  was probably meant.
- `program_cache`: where compiled programs are kept. `json_file`: the file of `--json`.
  `picture_file`: that of a picture.
- `experiment`: a system, its data and its model from options. `byzantine`: rules and attacks from options.
- `budget`: noise for an eps, and rounds within one, in run.
- `run_options`: options of run and sweep. `options`, `option_types`: options from the signatures of functions.
  `help_from_docstrings`: their help, which is written as `Args` in the docstring of the function.
- `axes`: parses the axes of a sweep. `launch`: joins the processes of a run. `result_tables`: prints what
  run, sweep and list found. `terminal`: where tables are printed.
"""
