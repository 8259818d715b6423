"""What rules know of the trial: the files on the engine, with the devices that were given."""
