"""The command `rws-operator`: what stands around the writing of an operator, not in it."""
