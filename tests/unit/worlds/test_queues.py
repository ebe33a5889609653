"""Queues in worlds of manifests."""

from pathlib import Path

import pytest

from shared.kubernetes.objects.errors import WorldError
from shared.model.cluster_objects import Queue
from shared.worlds.manifests import manifests_world

HEAD = "apiVersion: muster.io/v1alpha1\nkind: Queue\n"


def queues(tmp_path: Path, **specs: str) -> tuple[object, ...]:
    documents = [
        f"{HEAD}metadata: {{name: {name}}}\nspec: {{{spec}}}\n" for name, spec in specs.items()
    ]
    (tmp_path / "queues.yaml").write_text("---\n".join(documents), encoding="utf-8")
    return manifests_world([tmp_path]).objects


def test_a_tree_is_read_with_its_amounts(tmp_path: Path):
    most = 'cpu: 1500m, memory: 1Gi, "nvidia.com/gpu": 8, "example.com/x": 3, pods: 10'
    least = 'guaranteed: {"nvidia.com/gpu": 2}'
    read = queues(tmp_path, team=f"parent: all, max: {{{most}}}, {least}", all="")
    limits = {"cpu": 1_500, "memory": 1 << 30, "nvidia.com/gpu": 8_000}
    limits |= {"example.com/x": 3, "pods": 10}
    assert read == (
        Queue(
            uid="Queue..team",
            name="team",
            parent="all",
            max=tuple(sorted(limits.items())),
            guaranteed=(("nvidia.com/gpu", 2_000),),
        ),
        Queue(uid="Queue..all", name="all"),
    )


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        ("parent: gone", "Queue team: spec.parent: gone is no Queue"),
        ("parent: team", "Queue team: spec.parent: makes a cycle: team -> team"),
        ("max: {cpu: -1}", "Queue team: spec.max.cpu: '-1' is negative"),
        ("max: {cpu: many}", "Queue team: spec.max.cpu: 'many' is not a quantity"),
        ("guaranteed: {cpu: -1}", "Queue team: spec.guaranteed.cpu: '-1' is negative"),
        ("guaranteed: {cpu: 2}, max: {cpu: 1}", "spec.guaranteed.cpu: is 2, above its max 1"),
        ("most: {}", "Queue team: spec.most: is an unknown field"),
        ("max: {muster.io/gpu-milli: 1}", "spec.max.muster.io/gpu-milli: is counted as"),
    ],
)
def test_a_bad_queue_is_refused_with_name_field_and_rule(tmp_path: Path, spec: str, error: str):
    with pytest.raises(WorldError) as raised:
        queues(tmp_path, team=spec)
    assert error in str(raised.value)
