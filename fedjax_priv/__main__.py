"""`python -m fedjax_priv` is the command `fedjax-priv`."""

from fedjax_priv.cli.main import main

if __name__ == "__main__":
    main()
