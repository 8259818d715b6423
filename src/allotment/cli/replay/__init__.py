"""``allot replay``: options, stored results, and text output."""
