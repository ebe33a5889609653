"""Records what the cluster told us, interns signatures, routes nodes to shards; decides nothing."""
