"""Where clusters come from: described, running and saved ones."""
