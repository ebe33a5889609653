"""The checker of live tests: it reads etcd's history, the audit log and the journals alone.

It works on plain objects and shares no code with the product, so no fault can be in both.
"""
