"""Pre-flight: what must hold in a cluster before the new manifests are applied, as far as what was given tells it."""
