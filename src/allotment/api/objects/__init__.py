"""The objects that a question is about: releases, validation, and files that are replaced."""
