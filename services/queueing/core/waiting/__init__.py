"""Pods that wait: backoff, timeouts, rejections by permit plugins, and their messages."""
