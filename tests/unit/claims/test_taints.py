"""Which tolerations let a request have a tainted device (ToleratesTaint)."""

import pytest

from shared.model.claims import (
    ClaimSpec,
    Device,
    DeviceClass,
    DeviceTaint,
    DeviceToleration,
    Reach,
    Request,
    ResourceClaim,
    ResourceSlice,
    Wanted,
)
from shared.scheduling.claims.pod_claims import ClaimFacts
from shared.scheduling.claims.reach import NodeView


@pytest.mark.parametrize(
    ("taint", "toleration", "fits"),
    [
        (("k", "v", "NoSchedule"), None, False),
        (("k", "v", "NoExecute"), None, False),
        (("k", "v", "None"), None, True),
        (("k", "v", "NoSchedule"), ("k", "Equal", "v", ""), True),
        (("k", "v", "NoSchedule"), ("k", "Equal", "w", ""), False),
        (("k", "v", "NoSchedule"), ("k", "Exists", "", "NoSchedule"), True),
        (("k", "v", "NoSchedule"), ("k", "Exists", "", "NoExecute"), False),
        (("k", "v", "NoSchedule"), ("l", "Exists", "", ""), False),
        (("k", "v", "NoSchedule"), ("", "Exists", "", ""), True),
    ],
)
def test_a_taint_rejects_unless_it_is_tolerated(taint, toleration, fits):
    device = Device("a", taints=(DeviceTaint(*taint),))
    one = ResourceSlice("s", "d.com", "p", 1, 1, Reach("n"), (device,))
    tolerations = (DeviceToleration(*toleration),) if toleration else ()
    request = Request("r", (Wanted("c", tolerations=tolerations),))
    claim = ResourceClaim("default", "x", "u", ClaimSpec((request,)))
    fit = ClaimFacts([DeviceClass("c")], [one]).fit([claim], NodeView("n", {}))
    assert (fit.reason == "") is fits
