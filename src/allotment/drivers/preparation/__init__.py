"""The framework around a vendor's driver: claims prepared and undone, whatever crashes in between."""
