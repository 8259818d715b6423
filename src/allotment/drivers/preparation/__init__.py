"""The framework around a vendor's driver: crash-safe preparation and release of claims."""
