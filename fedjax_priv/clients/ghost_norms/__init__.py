"""Norms of the gradients of single samples, mostly without these gradients, for any loss.

The loss of one example is traced. Where an equation of it uses a parameter, the norm of the gradient by the parameter
follows from the input of the equation and the derivative by its output, which one backward pass gives for the whole
batch.

- `loss_equations`: the equations of a loss, and those that use parameters. `dependence`, `separate_examples`: whether
  the loss of an example depends on others of its batch.
- `rule`, `by_primitive`: what is known of an equation that uses a parameter.
- `matrices`, `convolutions`, `client_convolutions`, `lookups`: the rules.
- `outer_products`: norms of sums of outer products.
- `plan`: the method of each parameter.
- `sample_gradients`: norms and weighted sums of the gradients of a batch.
"""
