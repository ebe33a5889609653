"""A shard's part in gangs: offers, holds, and room made for members."""
