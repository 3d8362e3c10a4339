"""The YAML stream is readable, always the same, and means the same to kubectl."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from rws_operator.manifests import print_on_request, to_yaml

TEXTS = (
    *("y", "Y", "n", "yes", "No", "on", "off", "true", "null", "~", "", " ", " edge "),
    *("1", "1.0", "1e3", "1E3", ".5", "0o17", "017", "0x1F", "0b11", "1_000", "12:30:45", "+1"),
    *("-", "- a", "a: b", "a #b", "#a", "*a", "&a", "!a", "%a", "@a", "`a", "{a}", "[a]"),
    *("|", ">"),
    *(
        "2024-01-01",
        "2024-01-01T00:00:00Z",
        "a\nb",
        "a\nb\n",
        "a \nb",
        "\na",
        "tab\there",
        "é\u2028",
        "a\x85b\nc",
        "\ufeffa",
    ),
    *("'", '"', "\\", "x" * 300, "word " * 60, "=", "<<", ".inf", ".nan", "0.1.2", "1.2.3.4"),
)


def test_texts_mean_the_same_to_kubectl() -> None:
    """Texts that look like numbers, booleans or syntax come back unchanged from Go's reader."""
    data = {f"k{number}": text for number, text in enumerate(TEXTS)}
    document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": data}
    kubectl = Path(sys.executable).with_name("kubectl")
    answer = subprocess.run(
        [kubectl, "label", "--local", "-o", "json", "-f", "-", "read=by-kubectl"],
        input=to_yaml([document]),
        capture_output=True,
        text=True,
        check=False,
        env={"KUBECONFIG": "/dev/null"},
    )
    assert answer.returncode == 0, answer.stderr
    assert json.loads(answer.stdout)["data"] == data


def test_documents_are_separated_and_keys_keep_their_order() -> None:
    """Each document follows a separator line and reads as it was given."""
    documents: list[dict[str, Any]] = [
        {"kind": "B", "a": [{"z": 1, "b": [1, 2]}]},
        {"kind": "A", "none": None},
    ]
    text = to_yaml(documents)
    assert (
        text
        == "---\nkind: B\na:\n  - z: 1\n    b:\n      - 1\n      - 2\n---\nkind: A\nnone: null\n"
    )
    assert list(yaml.safe_load_all(text)) == documents


def test_values_used_twice_are_written_twice() -> None:
    """No anchors: they confuse people and some readers."""
    shared = {"app": "x"}
    assert "&" not in to_yaml([{"a": shared, "b": shared}])


def test_documents_are_printed_only_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    """With --manifests the process prints and exits 0, without it the function isn't called."""
    calls: list[int] = []

    def documents() -> list[dict[str, str]]:
        calls.append(1)
        return [{"kind": "A"}]

    print_on_request(documents, ["serve"])
    assert calls == []
    with pytest.raises(SystemExit) as exit_info:
        print_on_request(documents, ["--manifests"])
    assert exit_info.value.code == 0
    assert capsys.readouterr().out == "---\nkind: A\n"
