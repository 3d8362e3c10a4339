"""The Helm chart says what the manifests say, in templates of a few known forms.

No helm runs here: the forms are listed below, with what Helm makes of each, and nothing else may
stand between braces. So the rendering is small enough to be written by hand.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from rws_operator.cli import main
from rws_operator.manifests import extras
from rws_operator.manifests.helm import FILE
from rws_operator.manifests.places import MARK
from tests.manifests.shelf import by_kind, operator

if TYPE_CHECKING:
    from pathlib import Path

    from rws_operator import Operator

IMAGE = "example.com/shelves:v1.2.3"
LABELS = "{{- with .Values.monitoringLabels }}{{ toYaml . | nindent 4 }}{{- end }}"
SWITCHES = "networkPolicy|serviceMonitor|prometheusRule|dashboard"
INNER = re.compile(
    r"{{- if \.Values\.serviceMonitor }}\n([^{]*(?:{{ [^}]*}}[^{]*)*){{- else }}\n"
    r"([^{]*(?:{{ [^}]*}}[^{]*)*){{- end }}\n"
)
OUTER = re.compile(rf"{{{{- if \.Values\.({SWITCHES}) }}}}\n(.*){{{{- end }}}}\n", re.DOTALL)


def write(made: Operator, folder: Path, *more: str) -> None:
    """Write the chart by the command line."""
    asked = ["--manifests", "--output", str(folder), "--as", "helm", "--image", IMAGE, *more]
    assert main(made, asked) == 0


def values_of(folder: Path) -> dict[str, Any]:
    """The chart's own values."""
    values: dict[str, Any] = yaml.safe_load((folder / "values.yaml").read_text())
    return values


def render(text: str, values: dict[str, Any], namespace: str) -> str:
    """What Helm makes of a template; a form that is not listed is an error."""
    text = INNER.sub(lambda found: found[1 if values["serviceMonitor"] else 2], text)
    text = OUTER.sub(lambda found: found[2] if values[found[1]] else "", text)
    labels = yaml.safe_dump(values["monitoringLabels"]) if values["monitoringLabels"] else ""
    indented = "".join(f"\n    {line}" for line in labels.splitlines())
    text = text.replace("    " + LABELS, indented.removeprefix("\n"))
    forms = {
        "{{ .Release.Namespace | quote }}": json.dumps(namespace),
        "{{ .Values.image | quote }}": json.dumps(values["image"]),
        "{{ int .Values.replicas }}": str(values["replicas"]),
        "{{ toJson .Values.resources }}": json.dumps(values["resources"]),
        '{{ "{{" }}': "{{",
    }

    def answer(found: re.Match[str]) -> str:
        assert found[0] in forms, found[0]
        return forms[found[0]]

    return re.sub(r'{{ "{{" }}|{{.*?}}', answer, text)


def rendered(
    folder: Path, namespace: str, **changes: Any
) -> dict[tuple[str, str, str], dict[str, Any]]:
    """The documents of a release."""
    values = values_of(folder) | changes
    found = {}
    for path in (folder / "templates").glob("*.yaml"):
        document = yaml.safe_load(render(path.read_text(), values, namespace))
        if document is not None:
            found[_key(document)] = document
    return found


def _key(document: dict[str, Any]) -> tuple[str, str, str]:
    metadata = document["metadata"]
    return document["kind"], metadata.get("namespace", ""), metadata["name"]


def printed(made: Operator, namespace: str, **arguments: Any) -> dict[tuple[str, str, str], Any]:
    """What a chart is to give: the manifests, but for the namespace, which is the release's."""
    given: dict[str, Any] = {"image": IMAGE, "namespace": namespace} | arguments
    documents = made.manifests(**given)
    found = {_key(each): each for each in documents}
    del found["Namespace", "", namespace]
    for (kind, _, _), each in found.items():
        if kind in ("CustomResourceDefinition", "Namespace"):
            each["metadata"]["annotations"] = {"helm.sh/resource-policy": "keep"}
    return found


@pytest.mark.parametrize("namespace", ["shelves", "elsewhere", "123"])
def test_its_own_values_give_the_printed_documents(tmp_path: Path, namespace: str) -> None:
    """In any namespace, even one that YAML would take for a number."""
    made = operator("shelves")
    write(made, tmp_path, "--with", "all")
    assert rendered(tmp_path, namespace) == printed(made, namespace, **extras.ALL)


@pytest.mark.parametrize("chosen", [(), ("network_policy",), ("service_monitor", "dashboard")])
def test_options_are_values(tmp_path: Path, chosen: tuple[str, ...]) -> None:
    """A chart that was written with few can be released with all, and the other way round."""
    made = operator("shelves")
    flags = [each for name in chosen for each in ("--with", name.replace("_", "-"))]
    write(made, tmp_path, *flags)
    wanted: Any = dict.fromkeys(chosen, True)
    assert rendered(tmp_path, "shelves") == printed(made, "shelves", **wanted)
    switches = dict.fromkeys(SWITCHES.split("|"), True)
    assert rendered(tmp_path, "shelves", **switches) == printed(made, "shelves", **extras.ALL)
    switches = dict.fromkeys(SWITCHES.split("|"), False)
    assert rendered(tmp_path, "shelves", **switches) == printed(made, "shelves")


def test_values_stand_where_they_belong(tmp_path: Path) -> None:
    """Image, replicas and resources in the Deployment, labels where Prometheus looks for them."""
    made = operator("shelves")
    write(made, tmp_path, "--with", "all", "--replicas", "3")
    resources = {"limits": {"memory": "1Gi"}}
    found = rendered(
        tmp_path,
        "shelves",
        image="other:1",
        replicas=7,
        resources=resources,
        monitoringLabels={"release": "prometheus"},
    )
    wanted = printed(made, "shelves", image="other:1", replicas=7, **extras.ALL)
    pod = wanted["Deployment", "shelves", "shelves"]["spec"]["template"]["spec"]
    pod["containers"][0]["resources"] = resources
    for kind in ("ServiceMonitor", "PrometheusRule"):
        wanted[kind, "shelves", "shelves"]["metadata"]["labels"]["release"] = "prometheus"
    assert found == wanted
    assert values_of(tmp_path)["replicas"] == 3


def test_kinds_are_upgraded_and_outlive_the_release(tmp_path: Path) -> None:
    """In Helm's own folder for them they would be installed once and never changed."""
    write(operator("shelves"), tmp_path)
    assert not (tmp_path / "crds").exists()
    crd = by_kind([*rendered(tmp_path, "shelves").values()], "CustomResourceDefinition")
    assert crd["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}


def test_text_that_looks_like_a_template_stays_text(tmp_path: Path) -> None:
    """A kind's docstring, an alert's annotation and a panel's legend may hold braces."""
    made = operator("shelves")
    write(made, tmp_path, "--with", "all")
    texts = {path.name: path.read_text() for path in (tmp_path / "templates").glob("*.yaml")}
    assert any('{{ "{{" }} .Values.secret }}' in text for text in texts.values())
    assert not [name for name, text in texts.items() if MARK in text or "-marks" in text]


def test_a_lease_in_another_namespace_has_its_objects_there(tmp_path: Path) -> None:
    """That namespace is no release's; it stays at the end, for others may live in it."""
    made = operator("shelves", "leases")
    write(made, tmp_path)
    assert rendered(tmp_path, "shelves") == printed(made, "shelves")


def test_a_schema_tells_helm_what_a_value_may_be(tmp_path: Path) -> None:
    """It knows each value and no other, so that Helm refuses a misspelt one."""
    write(operator("shelves"), tmp_path)
    schema = json.loads((tmp_path / "values.schema.json").read_text())
    values = values_of(tmp_path)
    assert schema["additionalProperties"] is False
    # Helm gives `global` to each chart that is a part of another one.
    assert schema["properties"].keys() == values.keys() | {"global"}
    types = {"string": str, "integer": int, "boolean": bool, "object": dict}
    for name, value in values.items():
        assert type(value) is types[schema["properties"][name]["type"]]
    assert schema["properties"]["replicas"]["minimum"] == 0
    known = schema["properties"]["resources"]
    assert (known["additionalProperties"], set(known["properties"])) == (
        False,
        {"requests", "limits", "claims"},
    )


@pytest.mark.parametrize(
    ("image", "version", "app"),
    [
        ("shelves:1.2.3-rc.1", "1.2.3-rc.1", "1.2.3-rc.1"),
        ("host:5000/shelves:v2.0.0", "2.0.0", "v2.0.0"),
        ("host:5000/shelves", "0.1.0", "latest"),
        ("shelves:main", "0.1.0", "main"),
    ],
)
def test_the_charts_version_is_the_images_where_it_is_one(
    tmp_path: Path, image: str, version: str, app: str
) -> None:
    """A chart needs a semantic version, an image does not."""
    write(operator("shelves"), tmp_path, "--image", image)
    chart = yaml.safe_load((tmp_path / FILE).read_text())
    assert (chart["apiVersion"], chart["name"]) == ("v2", "shelves")
    assert (chart["version"], chart["appVersion"]) == (version, app)


def test_notes_say_what_helm_does_not_do(tmp_path: Path) -> None:
    """The namespace's label, Prometheus' label, and the order of an uninstall."""
    write(operator("shelves"), tmp_path)
    notes = (tmp_path / "templates" / "NOTES.txt").read_text()
    for each in ("enforce=restricted", "metrics=enabled", "--keep-crds"):
        assert each in notes
    forms = {"{{ .Release.Namespace }}", "{{- end }}"}
    forms.add("{{- if and .Values.networkPolicy .Values.serviceMonitor }}")
    assert set(re.findall(r"{{.*?}}", notes)) == forms
