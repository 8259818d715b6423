"""Pure functions from objects to a report value: explain, free, matches."""
