"""Field arithmetic, pseudorandom words, key agreement and secret sharing; no federation here."""
