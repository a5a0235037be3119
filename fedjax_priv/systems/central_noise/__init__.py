"""Systems in which the server adds noise to sums of clipped updates."""
