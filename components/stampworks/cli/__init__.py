"""The command line: parse arguments, call a function, print the result."""
