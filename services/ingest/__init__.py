"""Records what the cluster shows, interns signatures and routes nodes to shards. It decides
nothing.
"""
