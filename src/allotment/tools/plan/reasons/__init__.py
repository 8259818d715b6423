"""Why each type was taken or not, and what a plan looks like in words."""
