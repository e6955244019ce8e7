"""Set-up: brings a machine to where `make demo` and `make test` run. Standard library only."""
