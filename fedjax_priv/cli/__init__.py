"""The command `fedjax-priv`. The library imports none of it.

- `main`: the commands and their options. `commands`: run, sweep and list. `audit_command`: audit. `bench`: bench.
  `demo`: demo. `reproduce`: finds the scripts of reproduce.
- `experiment`: a system, its data and its model from options. `byzantine`: rules and attacks from options.
- `options`, `option_types`, `help_text`: options and their help from the signatures and docstrings of functions.
- `axes`: parses the axes of a sweep. `launch`: joins the processes of a run. `report`: prints tables of runs.
"""
