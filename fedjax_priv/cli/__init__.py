"""The command `fedjax-priv`. The library imports none of it.

- `main`: the commands and their options. `commands`: run, sweep and list. `audit_command`: audit. `bench`: bench.
  `demo.demo_command`: demo. `reproduce`: finds the scripts of reproduce.
- `experiment`: a system, its data and its model from options. `byzantine`: rules and attacks from options.
- `options`, `option_types`: options from the signatures of functions. `help_from_docstrings`: their help, which is
  written as `Args` in the docstring of the function.
- `axes`: parses the axes of a sweep. `launch`: joins the processes of a run. `result_tables`: prints what
  run, sweep and list found.
"""
