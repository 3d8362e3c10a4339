"""An installation as a Helm chart: the printed documents with a few places left open.

The chart is generated, so its templates need no more than seven forms of expression, all made
here: the release's namespace, four values, a condition and a literal ``{{``. What a document says
beyond them is what `--manifests` prints.

CustomResourceDefinitions are templates. In Helm's own place for them, the folder ``crds``, they
are installed once and never touched again: after an upgrade the operator would run with its old
schema, and what it writes be pruned. As templates they are upgraded like everything else; an
annotation keeps them, and with them all objects, when the release is uninstalled.

The Namespace is the release's, so it is no template: Helm makes it (``--create-namespace``).
"""

from __future__ import annotations

import copy
import json
import re
from typing import TYPE_CHECKING, Any

from rws_operator.manifests.extras import ALL, Extras
from rws_operator.manifests.monitoring import PROMETHEUS_RULE, SERVICE_MONITOR
from rws_operator.manifests.network_policy import SCRAPERS
from rws_operator.manifests.places import HEADER, MARK, file_name
from rws_operator.manifests.stream import to_yaml
from rws_operator.manifests.workload import POD_SECURITY

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Document = dict[str, Any]

FILE = "Chart.yaml"

_KEEP = {"helm.sh/resource-policy": "keep"}
_MONITORING = (SERVICE_MONITOR.kind, PROMETHEUS_RULE.kind)
_VALUES = {
    "NetworkPolicy": "networkPolicy",
    SERVICE_MONITOR.kind: "serviceMonitor",
    PROMETHEUS_RULE.kind: "prometheusRule",
    "ConfigMap": "dashboard",
}
"""The value that asks for an optional document, by its kind."""

_EXPRESSIONS = {
    MARK: "{{ .Release.Namespace | quote }}",
    "rws-operator-marks-an-image": "{{ .Values.image | quote }}",
    "rws-operator-marks-replicas": "{{ int .Values.replicas }}",
    "rws-operator-marks-resources": "{{ toJson .Values.resources }}",
    "rws-operator-marks: labels": "{{- with .Values.monitoringLabels }}"
    "{{ toYaml . | nindent 4 }}{{- end }}",
}
"""What takes a mark's place."""

_IMAGE, _REPLICAS, _RESOURCES = list(_EXPRESSIONS)[1:4]
_SEMVER = re.compile(r"v?(\d+\.\d+\.\d+(?:[-+][0-9A-Za-z.+-]*)?)")


def chart(
    name: str,
    render: Callable[[str, Extras], Sequence[Document]],
    wanted: Extras,
) -> dict[str, str]:
    """The files of the chart, by their paths in its folder.

    Args:
        name: Name of the chart, and of the operator's objects.
        render: Makes the documents for a namespace, with what is on request.
        wanted: Which of that the chart's own values ask for.
    """
    documents = render(MARK, ALL)
    unscraped = render(MARK, Extras(network_policy=True))
    deployment = next(each for each in documents if each["kind"] == "Deployment")
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    values = {
        "image": container["image"],
        "replicas": deployment["spec"]["replicas"],
        "resources": container["resources"],
        "networkPolicy": wanted.get("network_policy", False),
        "serviceMonitor": wanted.get("service_monitor", False),
        "prometheusRule": wanted.get("prometheus_rule", False),
        "dashboard": wanted.get("dashboard", False),
        "monitoringLabels": {},
    }
    closed = next(each for each in unscraped if each["kind"] == "NetworkPolicy")
    return {
        FILE: HEADER + _chart(name, container["image"]),
        "values.yaml": HEADER + _values(values),
        "values.schema.json": json.dumps(_SCHEMA, indent=2) + "\n",
        "templates/NOTES.txt": _notes(name),
        **{
            f"templates/{file_name(each, MARK)}": HEADER + _template(each, closed)
            for each in documents
            if not _is_of_release(each)
        },
    }


def _is_of_release(document: Document) -> bool:
    return bool(document["kind"] == "Namespace" and document["metadata"]["name"] == MARK)


def _chart(name: str, image: str) -> str:
    tag = image.rpartition("/")[2].partition("@")[0].partition(":")[2]
    version = _SEMVER.fullmatch(tag)
    return _yaml(
        {
            "apiVersion": "v2",
            "name": name,
            "description": f"The operator {name}.",
            "type": "application",
            # `helm package --version ... --app-version ...` sets others.
            "version": version[1] if version else "0.1.0",
            "appVersion": tag or "latest",
        }
    )


def _template(document: Document, closed_policy: Document) -> str:
    """A document as a template, behind its condition if it is optional."""
    kind = document["kind"]
    if kind not in _VALUES:
        return _text(document)
    text = _text(document)
    if kind == "NetworkPolicy":
        text = _on("serviceMonitor", text, otherwise=_text(closed_policy))
    return _on(_VALUES[kind], text)


def _on(value: str, text: str, *, otherwise: str | None = None) -> str:
    other = "" if otherwise is None else "{{- else }}\n" + otherwise
    return f"{{{{- if .Values.{value} }}}}\n{text}{other}{{{{- end }}}}\n"


def _text(document: Document) -> str:
    """A document's text, with expressions in their places."""
    text = _yaml(_marked(document)).replace("{{", '{{ "{{" }}')
    for mark, expression in _EXPRESSIONS.items():
        text = text.replace(mark, expression)
    return text


def _marked(document: Document) -> Document:
    """A copy with marks in the places of values, and with what Helm has to know."""
    document = copy.deepcopy(document)
    metadata = document["metadata"]
    if document["kind"] in ("CustomResourceDefinition", "Namespace"):
        metadata["annotations"] = metadata.get("annotations", {}) | _KEEP
    elif document["kind"] in _MONITORING:
        metadata["labels"]["rws-operator-marks"] = "labels"
    elif document["kind"] == "Deployment":
        document["spec"]["replicas"] = _REPLICAS
        container = document["spec"]["template"]["spec"]["containers"][0]
        container |= {"image": _IMAGE, "resources": _RESOURCES}
    return document


def _yaml(document: Mapping[str, Any]) -> str:
    return to_yaml([document]).removeprefix("---\n")


def _values(values: Mapping[str, Any]) -> str:
    """The values, each under what it means."""
    return "".join(
        f"# {_PROPERTIES[key]['description']}\n{_yaml({key: value})}"
        for key, value in values.items()
    )


def _switch(description: str) -> dict[str, Any]:
    return {"type": "boolean", "description": description}


_QUANTITIES = {"type": "object", "additionalProperties": {"type": ["string", "number"]}}

_PROPERTIES: dict[str, dict[str, Any]] = {
    "image": {"type": "string", "pattern": r"^\S+$", "description": "Container image."},
    "replicas": {
        "type": "integer",
        "minimum": 0,
        "maximum": 2**31 - 1,
        "description": "Number of pods: one works, the others stand by.",
    },
    "resources": {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "requests": _QUANTITIES,
            "limits": _QUANTITIES,
            "claims": {"type": "array"},
        },
        "description": "Of each pod. A CPU limit would have the Lease renewed too late.",
    },
    "networkPolicy": _switch("Shut the pods off, but for webhooks and who may scrape."),
    "serviceMonitor": _switch("Have Prometheus scrape the pods; needs its operator."),
    "prometheusRule": _switch("Alert on what needs a person; needs Prometheus' operator."),
    "dashboard": _switch("A Grafana dashboard, in a ConfigMap."),
    "monitoringLabels": {
        "type": "object",
        "additionalProperties": {"type": "string"},
        "description": "By which Prometheus picks monitors and rules, e.g. its chart's release.",
    },
}

_SCHEMA = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "required": ["image", "replicas", "resources"],
    "properties": {
        **_PROPERTIES,
        # Helm hands it to each chart that is a part of another one.
        "global": {"type": "object"},
    },
    "additionalProperties": False,
}


def _notes(name: str) -> str:
    (security, level), (scraper, word) = *POD_SECURITY.items(), *SCRAPERS.items()
    where = "{{ .Release.Namespace }}"
    return f"""\
{name} runs in {where}.

See it become ready:
  kubectl rollout status deployment/{name} -n {where}

Have the namespace admit only pods that pass the strictest standard, as these do:
  kubectl label namespace {where} {security}={level}
{{{{- if and .Values.networkPolicy .Values.serviceMonitor }}}}

Let Prometheus in, by its namespace:
  kubectl label namespace PROMETHEUS {scraper}={word}
{{{{- end }}}}

Before `helm uninstall`, which leaves the kinds and their objects, run the program's own
`uninstall` (with --keep-crds to leave them): it ends conversions and finalizers, which nobody
would answer afterwards.
"""
