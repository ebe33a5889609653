"""Helpers that several folders of tests share: builders, the driver of cores, real servers as
processes. Production code never imports them; the benches do.
"""
