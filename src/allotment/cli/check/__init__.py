"""``allot check``: configuration and options, reading files, output formats, and writing fixes."""
