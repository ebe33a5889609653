"""Sums for scores alone stay within int64, whatever defaults add to them."""

from shared.kubernetes.objects.quantities import INT64_MAX
from shared.worlds.case import case_of
from tests.unit.worlds.manifests import container, pod


def test_defaults_beyond_int64_are_capped_and_refuse_no_pod():
    asked = pod(containers=[container(memory=INT64_MAX), *[container()] * 9])
    spec = case_of("case", {"objects": [], "pods": [asked]}).asked[0].spec
    assert spec.request("memory") == spec.nonzero_memory_bytes == INT64_MAX
