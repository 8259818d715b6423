"""The whole lab, in process, against the articles' manifests and the causes of refusal."""
