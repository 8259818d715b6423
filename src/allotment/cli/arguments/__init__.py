"""The arguments of each command: nothing that a screen needs is imported, so that ``allot --help`` answers at once."""
