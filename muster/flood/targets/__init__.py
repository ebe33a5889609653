"""Where a flood is played: a simulated cluster, in this process or over Kafka, or a live one."""
