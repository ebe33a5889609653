"""How commands are declared and how their help looks: examples at the end, nothing cut off."""

from inspect import cleandoc
from typing import Any

import click

from muster.cli.errors import EXIT_INTERRUPTED, Fault

EXAMPLES = {
    "muster": """
        muster run examples/manifests
        muster get pods --waiting
        muster why pod/train-everything-0
    """,
    "muster run": """
        # A folder of manifests on a simulated cluster
        muster run examples/manifests
        # The same nodes with what a chart would add
        helm template my-chart | muster run examples/manifests -
        # The pods of a live cluster whose spec.schedulerName is muster
        muster run --kubeconfig ~/.kube/config --run-dir runs/live
    """,
    "muster serve": """
        # Two processes on one machine
        muster serve ingest queueing --bus kafka://127.0.0.1:9092/demo --kubeconfig ~/.kube/config
        muster serve placement/0 permit preemption binding --bus kafka://127.0.0.1:9092/demo \\
          --kubeconfig ~/.kube/config
    """,
    "muster cluster": """
        muster cluster examples/manifests --listen 127.0.0.1:7000
        muster serve ingest --cluster 127.0.0.1:7000 --bus sqlite:journals.db
    """,
    "muster simulate": """
        # Again with the same faults, delays and crashes
        muster simulate --seed 7
        muster simulate examples/manifests --placements 2
        # A day of jobs, Deployments and failures, without faults
        muster simulate --workloads examples/mixes/day.yaml --html day.html
    """,
    "muster flood": """
        muster flood examples/floods/deployments.yaml --html flood.html
        # The same flood on a live cluster, for kube-scheduler and for Muster
        muster flood examples/floods/deployments.yaml --target kubeconfig --rival kube-scheduler
        muster flood --compare a.json b.json --html both.html
    """,
    "muster extender": """
        muster extender --kubeconfig ~/.kube/config
        # Beside kube-scheduler in its pod, with the profile and a plugin of your own
        muster extender --kubeconfig in-cluster \\
          --config examples/plugins/scheduler-config.yaml --plugin examples/plugins/off_spot.py
    """,
    "muster replay": """
        muster replay
        # One journal, from its newest snapshot
        muster replay runs/live --from newest --journal placement/0
    """,
    "muster story": """
        muster story gang/default/training/vision
        muster story node/gpu-c1 runs/live
        # A trace for a collector of OpenTelemetry
        muster story pod/web-1 -o otlp
    """,
    "muster why": """
        muster why pod/impossible
        # Why is it on its node, and not on this one?
        muster why pod/web-1 -n default --node gpu-a1
        muster why gang/training/everything
    """,
    "muster get": """
        muster get pods --waiting
        muster get nodes runs/live -o wide
        muster get runs
    """,
    "muster queues": """
        muster get queues
        muster queues import queues.yaml > new-queues.yaml
    """,
    "muster queues import": """
        muster queues import queues.yaml > new-queues.yaml
        kubectl get queues.scheduling.volcano.sh -o yaml | muster queues import -
    """,
    "muster runs": """
        muster get runs
        muster runs rm --keep 5
    """,
    "muster runs rm": """
        muster runs rm runs/live
        muster runs rm --keep 5
    """,
    "muster score": """
        # How would the nodes of a cluster fare for one of its pods? Nothing is written
        muster score --kubeconfig ~/.kube/config --pod shop/web-0
        # The same for all its pending pods
        kubectl get nodes,pods,priorityclasses -A -o yaml | muster score -
        # Does a plugin always answer the same?
        muster score examples/case.json --plugin examples/plugins/off_spot.py --check-plugin
    """,
    "muster defrag": """
        # Which pods must move so that more pods with all GPUs of a node fit? Nothing is written
        muster defrag --kubeconfig ~/.kube/config
        # Four of them in one rack, and do it
        muster defrag --kubeconfig ~/.kube/config --for nvidia.com/gpu=8,cpu=32 \\
          --count 4 --topology-key example.com/rack --apply
    """,
    "muster reset": """
        muster reset --bus kafka://127.0.0.1:9092/demo --reason "the broker lost data" \\
          --kubeconfig ~/.kube/config
        muster reset --bus sqlite:journals.db --reason "a new world" --cluster 127.0.0.1:7000
    """,
}
"""Shell lines by command, a comment above those that need one."""


class Interrupted(Fault):
    """Ctrl-C while a command ran."""

    code = EXIT_INTERRUPTED


class Command(click.Command):
    """A command whose help ends with its examples."""

    def get_short_help_str(self, limit: int = 45) -> str:
        """Return the first sentence of the help, uncut: a list of commands wraps it."""
        return super().get_short_help_str(max(limit, len(self.help or "")))

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples."""
        with formatter.section("Examples"):
            for line in examples_of(ctx.command_path):
                formatter.write(f"{'':{formatter.current_indent}}{line}\n")


class Commands(click.Group, Command):
    """Several commands, in the order of their declaration."""

    command_class = Command
    group_class = type

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return their names."""
        return list(self.commands)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command. Raises Interrupted for Ctrl-C."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise Interrupted("interrupted") from None


def examples_of(command: str) -> list[str]:
    """Return the lines of a command's examples, such as those of `muster runs rm`."""
    return cleandoc(EXAMPLES[command]).splitlines()
