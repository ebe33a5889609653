"""The command lines that options give; tests/live checks that servers obey them."""

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from tests.support.kube_options import (
    LOAD_TEST,
    PORT_NAMES,
    KubeOptions,
    Layout,
    api_server_command,
    controller_manager_command,
    etcd_command,
    scheduler_command,
)

AT = Layout(Path("programs"), Path("folder"), dict.fromkeys(PORT_NAMES, 1))
OTHER: dict[str, Any] = {
    "version": "1.35",
    "authorization_mode": "RBAC",
    "audit_policy": None,
    "etcd_compaction_interval_s": 7,
    "storage_json": True,
    "watch_cache": False,
    "min_request_timeout_s": 7,
    "max_requests_inflight": 7,
    "max_mutating_requests_inflight": 7,
    "priority_and_fairness": False,
    "feature_gates": ("Other=true",),
    "runtime_config": (),
    "disabled_admission": ("Priority",),
    "api_server_args": ("--v=4",),
    "etcd_args": ("--log-level=debug",),
}


def commands(options: KubeOptions) -> list[str]:
    return etcd_command(AT, options) + api_server_command(AT, options)


def test_there_is_another_value_for_every_option():
    assert list(OTHER) == [field.name for field in fields(KubeOptions)]


@pytest.mark.parametrize("name", OTHER)
def test_every_option_changes_a_command_line(name: str):
    changed = KubeOptions(**{name: OTHER[name]})
    assert commands(changed) != commands(KubeOptions())


def test_for_load_tests_nothing_is_limited_or_logged():
    command = api_server_command(AT, LOAD_TEST)
    assert "--max-requests-inflight=0" in command
    assert "--max-mutating-requests-inflight=0" in command
    assert "--enable-priority-and-fairness=false" in command
    assert [argument for argument in command if "audit" in argument] == []


def test_the_feature_gates_hold_for_every_server_and_the_api_versions_for_one():
    for options in (KubeOptions(), KubeOptions(feature_gates=())):
        others = controller_manager_command(AT, options, Path("config"))
        others += scheduler_command(AT, options, Path("config"))
        gates = [argument for argument in others if argument.startswith("--feature-gates=")]
        assert len(gates) == (2 if options.gates() else 0)
        assert [argument for argument in others if "runtime-config" in argument] == []
