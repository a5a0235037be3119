"""Order statistics, distances and spectra of the server's rows."""
