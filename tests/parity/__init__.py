"""Agreement with kube-scheduler formulas and with brute-force oracles."""
