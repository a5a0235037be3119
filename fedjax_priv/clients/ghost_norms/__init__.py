"""Norms of the gradients of single samples for any loss, mostly without computing these gradients.

The loss of one example is traced. If an equation uses a parameter, the norm of the gradient by this parameter follows
from the equation's input and the derivative by its output; one backward pass gives these for the whole batch.

- `loss_equations`: the equations of a loss, and those that use parameters. `dependence`, `separate_examples`: whether
  the loss of an example depends on other examples of its batch.
- `rule`, `by_primitive`: how to find gradients and norms for an equation that uses a parameter.
- `matrices`, `convolutions`, `client_convolutions`, `lookups`: the rules.
- `outer_products`: norms of sums of outer products.
- `plan`: the method of each parameter.
- `sample_gradients`: norms and weighted sums of the gradients of a batch.
"""
