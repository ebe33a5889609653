"""The bus over Kafka: a topic per service, a partition per shard."""
