"""One scheduling cycle over a node table: filter, score, pick, for one pod or many equal ones."""
