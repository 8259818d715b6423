"""Carries decisions out: claims are written and settle, devices get ready, the pod is bound. Or all is taken back."""
