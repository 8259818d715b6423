"""A live cluster for the screens: the way to it, the words for its kinds, its tables."""
