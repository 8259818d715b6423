"""A whole lab in one process: the articles' manifests, and the causes of refusal."""
