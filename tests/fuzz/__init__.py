"""Random problems, and references that check what the package claims about them."""
