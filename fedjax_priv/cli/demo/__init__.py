"""The demo: systems of four papers on the same clients, in one table.

- `demo_command`: all of it, in order. `case_table`: the systems. `common_setting`: what they have in common.
- `audits`: what the server can be shown to learn. `compare`: a secure sum and the plain sum of the same updates.
- `table`: the printed table and the figure.
"""
