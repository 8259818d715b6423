"""Where objects are kept: one sequence of revisions, a history to watch, and durability."""
