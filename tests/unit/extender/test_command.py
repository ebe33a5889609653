"""`muster extender`: what it refuses before it starts anything, and where it listens."""

from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from muster.cli.addresses.bus import parse_address
from muster.cli.commands.extender import serve_extender
from muster.cli.errors import UsageFault
from muster.cli.extender_command import extender
from muster.cli.options.release import AskedRelease
from shared.extenders.values import CALLED
from shared.scheduling.api.custom.plugin import PLUGINS

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
ASKS = f"{HEAD}extenders:\n- urlPrefix: http://127.0.0.1:1\n  filterVerb: filter\n"
PERMITS = f"{HEAD}profiles:\n- plugins:\n    permit:\n      enabled: [{{name: Hold}}]\n"
HOLD = """
from muster.plugin import BindPlugin, BoundPod


class Hold(BindPlugin):
    async def permit(self, pod: BoundPod, node: str):
        return None
"""


@pytest.fixture(autouse=True)
def no_plugins() -> Iterator[None]:
    yield
    PLUGINS.clear()
    CALLED.clear()


def refused(tmp_path: Path, config: str, plugins: list[Path]) -> str:
    path = tmp_path / "config.yaml"
    path.write_text(config, encoding="utf-8")
    with pytest.raises(UsageFault) as error:
        serve_extender("kubeconfig", path, plugins, AskedRelease("1.35"), "1")
    return str(error.value).replace(str(path), "FILE")


def test_it_listens_on_loopback_unless_an_address_is_named():
    (listen,) = [one for one in extender.params if one.name == "listen"]
    assert isinstance(listen, click.Option)
    assert parse_address("--listen", str(listen.default)) == ("127.0.0.1", 10270)
    assert parse_address("--listen", "0.0.0.0:80") == ("0.0.0.0", 80)
    with pytest.raises(UsageFault, match="--listen here: must be PORT"):
        parse_address("--listen", "here")


def test_a_kubeconfig_is_required():
    with pytest.raises(UsageFault, match="extender: name a --kubeconfig"):
        serve_extender("", None, (), AskedRelease("1.35"), "1")


def test_extenders_of_its_own_are_refused(tmp_path: Path):
    said = "--config FILE: extenders: muster extender asks no other extenders"
    assert refused(tmp_path, ASKS, []) == said


def test_plugins_that_do_more_than_filter_and_score_are_refused(tmp_path: Path):
    plugin = tmp_path / "hold.py"
    plugin.write_text(HOLD, encoding="utf-8")
    assert refused(tmp_path, PERMITS, [plugin]) == (
        "--config FILE: profile default-scheduler: Hold: muster extender only filters and scores "
        "nodes: run such plugins with muster run"
    )
