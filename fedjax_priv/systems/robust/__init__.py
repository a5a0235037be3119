"""Systems that tolerate Byzantine clients."""
