"""``allot replay``: options, worker processes, stored results, and text output."""
