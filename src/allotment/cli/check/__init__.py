"""The parts of ``allot check``: configuration and options, reading files, telling findings in each format, writing."""
