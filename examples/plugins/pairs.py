"""Pods with the same label `pair` are bound two by two."""

import asyncio

from muster.plugin import BindPlugin, BoundPod


class Pairs(BindPlugin):
    """A pod that is alone for a minute gives its place back."""

    reads = ("labels.pair",)

    def __init__(self):
        self.alone = {}

    async def permit(self, pod: BoundPod, node: str):
        pair = pod["labels.pair"]
        if pair in self.alone and not self.alone[pair].done():
            self.alone[pair].set_result(None)
        elif pair:
            self.alone[pair] = asyncio.Future()
            await self.alone[pair]
