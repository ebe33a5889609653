"""The HTTP extender that kube-scheduler asks: Muster's filters and scores for another scheduler.

It has ingest's watches and one shard's node table, but no journals and no decisions of its own.
Muster's questions to other extenders are in shared/extenders.
"""
