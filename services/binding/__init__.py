"""Owns effects in flight: carries out, retries, reads back, reports; decides nothing about pods."""
