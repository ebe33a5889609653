"""Owns effects in flight: sends, retries, reads back and reports them. It decides nothing about
pods.
"""
