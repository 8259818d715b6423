"""``allot claim``: options, prompts on a terminal, and output."""
