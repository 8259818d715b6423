"""Patches, server-side apply, and the field owners in ``metadata.managedFields``."""
