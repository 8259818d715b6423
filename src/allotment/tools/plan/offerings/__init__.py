"""What can be bought: offers of the catalogue, modes of their GPUs, and the templates that the engine is asked on."""
