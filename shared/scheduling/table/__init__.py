"""The nodes of one shard as columns, and what is charged to them."""
