"""The command line: each command parses arguments, calls one function of the layers below, and prints its result."""
