"""What live tests check afterwards, from etcd's history, the audit log and the journals alone.

Plain objects as they lie there; it shares no code with the product, so that no fault can be in
both.
"""
