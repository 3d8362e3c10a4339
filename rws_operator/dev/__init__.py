"""`python -m app dev`: an operator at work while it is written."""
