"""The kinds that are served: for each its names, its versions and its rules, one file per family."""
