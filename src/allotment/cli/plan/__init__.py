"""The parts of ``allot plan``'s screen."""
