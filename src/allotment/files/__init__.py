"""Files that the programs of this project write: whole or not at all, and private where needed."""
