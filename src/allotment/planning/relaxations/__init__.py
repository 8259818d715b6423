"""The saving from relaxing one requirement or limit, each verified by a new plan."""
