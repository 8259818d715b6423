"""The subjects of the test: each module is a program that writes, and a check of the files that a power cut left."""
