"""Planted bugs in the rules of volumes; each shows in the cases named with it."""

from tests.simulation.planted import Bug

PLUGINS, VOLUMES = "shared.scheduling.plugins.volumes.", "shared.scheduling.volumes."
BINDING, LIMITS = PLUGINS + "volume_binding", PLUGINS + "node_volume_limits"
RESTRICTIONS, ZONE = PLUGINS + "volume_restrictions", PLUGINS + "volume_zone"
STORAGE, USES = VOLUMES + "storage", VOLUMES + "volume_uses"
MIGRATION = VOLUMES + "migration"


def _bug(name: str, module: str, old: str, new: str, first: int) -> Bug:
    """`first` is a seed that sees it."""
    return Bug(name, module, (old, new), first=(first,))


BUGS = (
    _bug(
        "own-read-only-ignored",
        RESTRICTIONS,
        "not (disk.read_only and other.read_only)",
        "not other.read_only",
        first=41,
    ),
    _bug("ebs-may-be-read", RESTRICTIONS, "(disk.kind == AWS or not (", "(not (", first=260),
    _bug("disks-of-any-monitors", USES, "(not one.monitors or not", "(True or not", first=949),
    _bug(
        "disk-before-claim",
        RESTRICTIONS,
        "yield IN_USE, ~taken & (in_use > 0), True",
        "yield IN_USE, (taken | True) & (in_use > 0), True",
        first=34,
    ),
    _bug(
        "a-claim-in-use-is-unresolvable",
        RESTRICTIONS,
        "yield IN_USE, ~taken & (in_use > 0), True",
        "yield IN_USE, ~taken & (in_use > 0), False",
        first=12,
    ),
    _bug(
        "claims-always-checked",
        RESTRICTIONS,
        "if not self._disks and not in_use:",
        "if not self._disks and not self._claims:",
        first=459,
    ),
    _bug(
        "one-more-volume", LIMITS, "(used + more > limits)", "(used + more > limits + 1)", first=0
    ),
    _bug(
        "volumes-counted-twice",
        LIMITS,
        "self._asked(driver) - here",
        "self._asked(driver)",
        first=9,
    ),
    _bug("full-nodes-refuse-pods-without-new-volumes", LIMITS, "& (more > 0) &", "&", first=9),
    _bug(
        "attachments-forgotten",
        USES,
        "by_pods | storage.att",
        "by_pods or storage.att",
        first=42,
    ),
    _bug(
        "unprovisioned-volumes-not-counted",
        STORAGE,
        "        if volume is None:\n            return self._to_come(claim)\n",
        "        if volume is None:\n            return None\n",
        first=0,
    ),
    _bug(
        "attachments-by-driver",
        STORAGE,
        "found.add((one.attacher,",
        "found.add((volume.driver,",
        first=45,
    ),
    _bug(
        "old-provisioners",
        STORAGE,
        "PROVISIONERS.get(provisioner, provisioner)",
        "provisioner",
        first=8,
    ),
    _bug(
        "aws-urls-not-parsed",
        MIGRATION,
        'name.startswith("aws://")',
        'name.startswith("ebs://")',
        first=648,
    ),
    _bug(
        "migrated-everywhere",
        MIGRATION,
        "PLUGINS.get(kind) in node.migrated",
        "True",
        first=60,
    ),
    _bug(
        "zones-of-labels", MIGRATION, "    elif zone in labels:", "    elif zone in ():", first=111
    ),
    _bug(
        "unbound-is-bound",
        BINDING,
        "claim.volume and claim.is_bind_completed",
        "claim.volume",
        first=4,
    ),
    _bug(
        "lost-is-bound",
        BINDING,
        "if claim.phase == LOST:",
        "if claim.phase == AVAILABLE:",
        first=13,
    ),
    _bug("leaving-claims", BINDING, "    if claim.is_leaving:", "    if not claim:", first=97),
    _bug("claims-of-any-owner", STORAGE, "and claim.controller == use.owner", "", first=76),
    _bug(
        "missing-volumes-are-conflicts",
        BINDING,
        "missing |= ~conflict",
        "conflict |= ~conflict",
        first=16,
    ),
    _bug(
        "fields-are-looked-at",
        BINDING,
        "if term.fields and not term.labels:",
        "if not term.labels and not term.fields:",
        first=86,
    ),
    _bug(
        "selected-node-not-required", BINDING, "nowhere |= ~chosen", "nowhere &= ~chosen", first=0
    ),
    _bug(
        "largest-claim-first",
        BINDING,
        "claim.request_bytes)\n",
        "-claim.request_bytes)\n",
        first=62,
    ),
    _bug(
        "volumes-taken-twice", BINDING, "undecided & ~taken.get", "undecided | ~taken.get", first=2
    ),
    _bug("kept-for-another", BINDING, "or (kept.uid and kept.uid != claim.uid)", "", first=446),
    _bug("any-size", BINDING, "volume.capacity_bytes >= claim.request_bytes", "True", first=25),
    _bug("any-mode", BINDING, "and volume.is_block == claim.is_block", "", first=79),
    _bug(
        "any-attributes",
        BINDING,
        "and volume.attributes_class == claim.attributes_class",
        "",
        first=16,
    ),
    _bug("leaving-volumes", BINDING, "and not volume.is_leaving", "", first=101),
    _bug("any-phase", BINDING, "volume.phase == AVAILABLE", "True", first=25),
    _bug("any-labels", BINDING, "claim.selector is None or holds", "True or holds", first=433),
    _bug(
        "any-access",
        BINDING,
        "set(claim.access_modes) <= set(volume.access_modes)",
        "True",
        first=124,
    ),
    _bug(
        "no-provisioner-provisions",
        BINDING,
        'in ("", NO_PROVISIONER)',
        'in ("", "nobody")',
        first=16,
    ),
    _bug(
        "made-anywhere",
        BINDING,
        "_matches(self._table, storage_class.topologies)",
        "np.ones(self._table.size, np.bool_)",
        first=41,
    ),
    _bug(
        "room-everywhere", BINDING, "or not claim.request_bytes", "or claim.request_bytes", first=2
    ),
    _bug("capacity-tracking-ignored", BINDING, "not driver.storage_capacity", "False", first=0),
    _bug("room-nowhere", BINDING, "one.topology is not None and _holds", "_holds", first=135),
    _bug("largest-volume-of-a-room", BINDING, "if limit is None else limit", "", first=5),
    _bug(
        "nodes-without-zones",
        ZONE,
        "        if self._needs:",
        "        if not self._needs:",
        first=14,
    ),
    _bug("todays-labels", ZONE, "todays.among(values))", "False)", first=73),
    _bug("one-zone", ZONE, "split(ZONES_BETWEEN)", 'split(",")', first=60),
    _bug("empty-zones", ZONE, "if all(values):", "if key in labels:", first=27),
    _bug("regions-forgotten", ZONE, "for key in LABELS:", "for key in LABELS[::2]:", first=144),
)
LARGEST_FIRST = Bug(
    "largest-volume-first",
    STORAGE,
    ("(one.capacity_bytes, one.name)", "(-one.capacity_bytes, one.name)"),
)
KEPT_OR_ANY = Bug("kept-or-any", BINDING, ("undecided &= ~left", "undecided &= left | ~left"))
"""These two show in cases that are made for them."""
