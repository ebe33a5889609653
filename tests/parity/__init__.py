"""Comparison with kube-scheduler: the same questions to Muster and to kube-scheduler's own code.

`generators` draws the questions, `oracle` asks kube-scheduler, `comparison` compares the answers,
`planted` changes plugins to see that the questions notice, and `suites` holds the tests.
"""
