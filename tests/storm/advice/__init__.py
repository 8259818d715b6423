"""Random clusters with a pending pod and planted mistakes, and the evaluation of the tools' advice for it."""
