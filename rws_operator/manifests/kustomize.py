"""An installation as a kustomize folder: a file for each document, and the kustomization.

The namespace, the image and the number of replicas are set in the kustomization. kustomize itself
knows where most names of a namespace stand; the others, such as a webhook's selector, follow by
replacements, whose places are found by rendering the documents for another namespace.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rws_operator.manifests.places import HEADER, MARK, file_name, places_of
from rws_operator.manifests.stream import to_yaml

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

FILE = "kustomization.yaml"

_ORDER = {"order": "fifo"}
"""As they stand: webhook configurations last."""


def kustomization(
    render: Callable[[str], Sequence[Mapping[str, Any]]], namespace: str
) -> dict[str, str]:
    """The files of the folder, by name.

    Args:
        render: Makes the documents for a namespace.
        namespace: The namespace they are printed for.
    """
    documents = render(namespace)
    files = {
        file_name(each, namespace): HEADER + to_yaml([each]).removeprefix("---\n")
        for each in documents
    }
    root: dict[str, Any] = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": list(files),
        "sortOptions": _ORDER,
    }
    if _lives_in_one_namespace(documents, namespace):
        root["namespace"] = namespace
        if targets := _targets(render(MARK)):
            root["replacements"] = [{"source": _source(documents), "targets": targets}]
    deployment = next(each for each in documents if each["kind"] == "Deployment")
    name, image = deployment["metadata"]["name"], _image_of(deployment)
    root["images"] = [image]
    root["replicas"] = [{"name": name, "count": deployment["spec"]["replicas"]}]
    return {FILE: HEADER + to_yaml([root]).removeprefix("---\n"), **files}


def _lives_in_one_namespace(documents: Iterable[Mapping[str, Any]], namespace: str) -> bool:
    """Whether kustomize may set it: it sets that of all, a Lease's own too."""
    return all(each["metadata"].get("namespace", namespace) == namespace for each in documents)


def _source(documents: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Where kustomize puts the namespace for certain."""
    account = next(each for each in documents if each["kind"] == "ServiceAccount")
    name = account["metadata"]["name"]
    return {"kind": "ServiceAccount", "name": name, "fieldPath": "metadata.namespace"}


def _targets(marked: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Where the namespace stands and kustomize does not look: under no field of that name."""
    targets = []
    for each in marked:
        places = [
            place
            for place in places_of(each, MARK)
            if place[0] != "metadata" and place[-1] != "namespace"
        ]
        if places:
            select = {"kind": each["kind"], "name": each["metadata"]["name"]}
            paths = [".".join(map(_escaped, place)) for place in places]
            targets.append({"select": select, "fieldPaths": paths})
    return targets


def _escaped(step: str | int) -> str:
    return str(step).replace(".", "\\.")


def _image_of(deployment: Mapping[str, Any]) -> dict[str, str]:
    """The image as kustomize takes it apart: name, tag, digest."""
    whole: str = deployment["spec"]["template"]["spec"]["containers"][0]["image"]
    name, at, digest = whole.partition("@")
    if at:
        return {"name": _without_tag(name), "digest": digest}
    name = _without_tag(whole)
    tag = whole.removeprefix(name).removeprefix(":")
    return {"name": name, "newTag": tag or "latest"}


def _without_tag(image: str) -> str:
    """The name of an image; a colon before the last slash is a registry's port."""
    path, slash, last = image.rpartition("/")
    return path + slash + last.partition(":")[0]
