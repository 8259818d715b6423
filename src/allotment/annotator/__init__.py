"""The annotator: events that explain pending pods, for clusters with another scheduler."""
