"""What all services share: vocabulary, machine, ports and plugins; no service code."""
