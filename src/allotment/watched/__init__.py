"""A cluster kept in memory: values of its state, one for each change, and what follows from them."""
