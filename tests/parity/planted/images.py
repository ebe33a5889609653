"""Planted bugs in decisions by images; each shows in a few cases with images on nodes."""

from tests.simulation.planted import Bug

PLUGIN, IMAGES = "shared.scheduling.plugins.image_locality", "shared.model.images"
COLUMNS, STATIC = "shared.scheduling.table.images", "shared.scheduling.cycle.score_classes"
PODS, CONFIG = "shared.kubernetes.objects.pod_templates", "shared.scheduling.profile"


def _bug(name: str, module: str, old: str, new: str) -> Bug:
    return Bug(name, module, (old, new))


BUGS = (
    _bug("images-not-spread", PLUGIN, "size_bytes * images.share(column)", "size_bytes * 1.0"),
    _bug("images-count-once", PLUGIN, "for name in names:", "for name in set(names):"),
    _bug("small-images-count", PLUGIN, "found, LEAST_BYTES, most_bytes", "found, 0, most_bytes"),
    _bug(
        "large-images-count", PLUGIN, "found, LEAST_BYTES, most_bytes", "found, LEAST_BYTES, None"
    ),
    _bug(
        "most-of-one-container",
        PLUGIN,
        "most_bytes = MOST_BYTES * len(",
        "most_bytes = MOST_BYTES + 0 * len(",
    ),
    _bug("most-without-the-least", PLUGIN, "(most_bytes - LEAST_BYTES)", "most_bytes"),
    _bug("no-tag-is-no-tag", IMAGES, 'return f"{name}:latest" if', "return name if"),
    _bug("a-port-is-a-tag", IMAGES, 'name.rfind(":") <= name.rfind("/")', 'name.rfind(":") < 0'),
    _bug("first-size-counts", IMAGES, "in images}", "in reversed(list(images))}"),
    _bug("empty-images-are-none", COLUMNS, "self.sizes >= 0", "self.sizes > 0"),
    _bug("images-normalised", STATIC, "if not plugin.is_normalised:", "if False:"),
    _bug(
        "images-of-init-forgotten",
        PODS,
        "in _all_containers(spec))\n    return tuple",
        'in spec.children("containers"))\n    return tuple',
    ),
    _bug(
        "weight-of-images",
        CONFIG,
        "for plugin, weight in weighed if weight",
        "for plugin, weight in weighed",
    ),
)
