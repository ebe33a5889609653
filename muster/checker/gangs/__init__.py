"""Checks gangs: their attempts, their topology domains, and the pods that leave for them."""
