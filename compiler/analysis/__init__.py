"""Facts about IR that passes and lowerings ask for."""
