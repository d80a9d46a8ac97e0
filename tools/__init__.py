"""Scripts that look at the repository itself, and the rules of the house that the guard tests apply."""
