"""What a starter takes as answers, and what follows from them."""

import re
import sys
import tomllib
from pathlib import Path

import pytest

from rws_operator.errors import ConfigurationError
from rws_operator.project import origin
from rws_operator.project.answers import check_answer, check_answers
from rws_operator.project.filters import in_quotes
from rws_operator.project.names import class_of, kind_of_project, module_of
from rws_operator.resources import kinds

ROOT = Path(__file__).parents[2]
WHEEL_URL = "https://host/a/rws_operator-0.1.0-py3-none-any.whl"


@pytest.mark.parametrize(
    ("question", "answer", "why"),
    [
        ("name", "My_Operator", "can't name a Service.*a-z, 0-9"),
        ("name", "3scale", "from a letter"),
        ("name", "x" * 64, "at most 63"),
        ("name", "", "can't name"),
        ("name", "kube-system", "a namespace of the cluster's own"),
        ("name", "default", "a namespace of the cluster's own"),
        ("name", "pydantic", "a package that the operator needs"),
        ("group", "nodots", "a domain name of your own"),
        ("group", "Example.com", "a domain name of your own"),
        ("group", "backup.k8s.io", "kept for Kubernetes"),
        ("group", "a." * 130 + "com", "a domain name"),
        ("kind", "greeting", "CamelCase"),
        ("kind", "Greeting-Card", "CamelCase"),
        ("kind", "Größe", "CamelCase"),
        ("kind", "K" * 60, "at most 59"),
        ("kind", "Pod", "built-in pods"),
        ("kind", "Ingress", "built-in ingresses.networking.k8s.io"),
        ("plural", "Greetings", "lower-case"),
        ("plural", "my_greetings", "lower-case"),
        ("plural", "g" * 64, "at most 63"),
        ("plural", "services", "built-in services"),
        ("plural", "deployment", "built-in deployments.apps"),
        ("plural", "namespaces", "the API server's paths"),
        ("plural", "watch", "the API server's paths"),
        ("module", "class", "a word of Python's.*class_resource"),
        ("module", "operator", "would hide a module of its library"),
        ("module", "http-probe", "no name of a Python module"),
        ("module", "größe", "no name of a Python module"),
        ("module", "m" * 64, "at most 63"),
        ("module", "a/b", "no name of a Python module"),
        ("description", "", "has 0 characters"),
        ("description", "x" * 301, "1 to 300"),
        ("description", "one\ntwo", "one line"),
        ("description", "bell \x07", "one line"),
        ("description", "\ud800", "one line"),
        ("runtime", "", "nothing says where"),
        ("runtime", "/", "neither source nor wheel"),
        ("runtime", "/nowhere/at/all", "there is no /nowhere/at/all"),
        ("runtime", "git+https://host/x'y", "no git reference"),
        ("runtime", f"{WHEEL_URL}#sha256=0", "no address of a wheel"),
        ("runtime", "https://host/x.tar.gz", "no address of a wheel"),
        ("runtime", "git+https://host/x#egg=y", "#subdirectory=folder and nothing else"),
        ("runtime", "~nobody-of-that-name/x", "a home that is not known.*whole path"),
        ("runtime", "rws-operator>=", "there is no"),
    ],
)
def test_wrong_answers_are_refused(question: str, answer: str, why: str):
    """The reason is told, with what to write instead."""
    with pytest.raises(ConfigurationError) as refused:
        check_answer(question, answer, {"kind": "Greeting", "group": "example.com"})
    assert re.search(why, str(refused.value))
    assert refused.value.remedy


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("name", "x"),
        ("name", "x" * 63),
        ("name", "a--b-0"),
        ("group", "0.example.com"),
        ("group", "a-b.c.d.e.f.g.h.example.com"),
        ("kind", "X"),
        ("kind", "HTTPProbe"),
        ("kind", "S3Bucket2"),
        ("kind", "K" * 59),
        ("kind", "None"),
        ("kind", "Model"),
        ("plural", "sheep"),
        ("plural", "a-b"),
        ("module", "http_probe"),
        ("description", '"It\'s" \\ {{ 7*7 }} {% x %} {#} $HOME é'),
        ("runtime", "rws-operator==0.1.0"),
        ("runtime", "git+ssh://git@host/path.git@v0.1"),
        ("runtime", "git+https://host/x@v1#subdirectory=a/b"),
        ("runtime", str(ROOT)),
    ],
)
def test_odd_answers_are_taken(question: str, answer: str):
    """What is legal passes as it is, but for blanks around it."""
    assert check_answer(question, f" {answer} ", {"kind": "Greeting"}) == answer


def test_plural_and_group_are_one_name():
    """A CRD is named after both, and a name has 253 characters at most."""
    group = ".".join(["g" * 62] * 4)
    check_answer("group", group, {})
    with pytest.raises(ConfigurationError, match="longer than the 253 characters"):
        check_answer("plural", "greetings", {"kind": "Greeting", "group": group})


def test_an_empty_plural_is_the_english_one():
    """So that nobody needs to know it."""
    assert check_answer("plural", "", {"kind": "Policy"}) == "policies"


def test_all_answers_are_checked():
    """Also those that plain cookiecutter collected; what it adds is none of our business."""
    answers = {"name": "x", "kind": "Pod", "_template": "x"}
    with pytest.raises(ConfigurationError, match="built-in pods"):
        check_answers(answers)
    check_answers(answers | {"kind": "Greeting"})


def test_a_project_is_not_named_as_what_it_needs():
    """Nor as what that needs: pip could install neither."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = {re.split(r"[><=]", each)[0] for each in project["dependencies"]}
    needed |= {project["name"], "multidict", "pytest", "cookiecutter"}
    assert needed <= origin.runtime_packages()
    for name in ("multidict", "pytest", "uv"):
        with pytest.raises(ConfigurationError, match=name):
            check_answer("name", name, {})


def test_the_tools_of_a_project_are_known():
    """They are those that the starter's pyproject.toml names."""
    (starter,) = (ROOT / "starters" / "operator").glob("*/pyproject.toml")
    tools = re.findall(r'^    "(\w+)(?:\[\w+\])?>=', starter.read_text(), re.MULTILINE)
    assert tuple(tools) == origin.PROJECT_TOOLS


@pytest.mark.parametrize(
    ("kind", "module", "class_"),
    [
        ("Greeting", "greeting", "Greeting"),
        ("HTTPProbe", "http_probe", "HTTPProbe"),
        ("S3Bucket", "s3_bucket", "S3Bucket"),
        ("X", "x", "X"),
        ("Ab" * 29, ("ab_" * 21).rstrip("_"), "Ab" * 29),
        ("Class", "class_resource", "Class"),
        ("Queue", "queue_resource", "Queue"),
        ("None", "none", "NoneResource"),
        ("Exception", "exception", "ExceptionResource"),
        ("Model", "model", "ModelResource"),
        ("TestNamespace", "test_namespace", "TestNamespaceResource"),
    ],
)
def test_each_kind_has_a_module_and_a_class(kind: str, module: str, class_: str):
    """Python's own names and the runtime's are not taken again."""
    assert (module_of(kind), class_of(kind)) == (module, class_)
    assert check_answer("module", module, {}) == module


@pytest.mark.parametrize(
    ("project", "kind"),
    [
        ("backup-operator", "Backup"),
        ("backup-job-controller", "BackupJob"),
        ("operator", "Operator"),
        ("x", "X"),
    ],
)
def test_a_project_s_name_suggests_a_kind(project: str, kind: str):
    """Without the word for what every project of that sort is."""
    assert kind_of_project(project) == kind


def test_quotes_hold_anything():
    """TOML reads back what was answered."""
    text = "a \"b\" 'c' \\ \\n {{ d }} é"
    assert tomllib.loads(f"x = {in_quotes(text)}") == {"x": text}


@pytest.mark.parametrize(
    ("answer", "extra", "requirement"),
    [
        ("rws-operator", None, "rws-operator"),
        ("rws-operator == 0.1.0", "dev", "rws-operator[dev]==0.1.0"),
        ("rws_operator>=0.1,<2", None, "rws-operator>=0.1,<2"),
        ("git+https://host/x@v1", "dev", "rws-operator[dev] @ git+https://host/x@v1"),
        (WHEEL_URL, "dev", f"rws-operator[dev] @ {WHEEL_URL}"),
        (str(ROOT), "dev", f"rws-operator[dev] @ {ROOT.as_uri()}"),
        (ROOT.as_uri(), None, f"rws-operator @ {ROOT.as_uri()}"),
    ],
)
def test_an_origin_is_a_requirement(answer: str, extra: str | None, requirement: str):
    """As pip takes it."""
    assert origin.requirement_of(answer, extra) == requirement


def test_a_path_needs_no_quoting(tmp_path: Path):
    """Whatever is in it, make and the shell leave it alone."""
    wheel = tmp_path / "it's a $(folder) #1" / "rws_operator-0.1.0-py3-none-any.whl"
    wheel.parent.mkdir()
    wheel.touch()
    requirement = origin.requirement_of(str(wheel))
    assert not set(requirement.removeprefix("rws-operator @ ")) & set(" '$()#\"\\")
    assert origin.requirement_of(requirement.removeprefix("rws-operator @ ")) == requirement


@pytest.mark.parametrize(
    ("noted", "expected"),
    [
        (None, "rws-operator==1.2.3"),
        ('{"url": "file:///a%20b/x.whl", "archive_info": {}}', "/a b/x.whl"),
        (f'{{"url": "{WHEEL_URL}", "archive_info": {{}}}}', WHEEL_URL),
        ('{"url": "file:///src", "dir_info": {"editable": true}}', "/src"),
        (
            '{"url": "https://host/x", "vcs_info": {"vcs": "git", "commit_id": "abc"}}',
            "git+https://host/x@abc",
        ),
        (
            '{"url": "https://host/x", "vcs_info": {"vcs": "git", "commit_id": "abc"}, '
            '"subdirectory": "a"}',
            "git+https://host/x@abc#subdirectory=a",
        ),
    ],
)
def test_the_default_is_what_it_was_installed_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, noted: str | None, expected: str
):
    """Outside of a checkout, pip's own note says so."""

    class Installed:
        version = "1.2.3"

        def read_text(self, name: str) -> str | None:
            assert name == "direct_url.json"
            return noted

    assert origin.default_origin() == str(ROOT)
    monkeypatch.setattr(origin, "__file__", str(tmp_path / "a" / "b" / "origin.py"))
    monkeypatch.setattr(origin, "distribution", lambda _: Installed())
    assert origin.default_origin() == expected


def test_every_built_in_kind_is_known():
    """Each that the runtime names is refused."""
    assert check_answer("kind", "Lease2", {}) == "Lease2"
    for kind in (kinds.Lease, kinds.ConfigMap, kinds.CustomResourceDefinition, kinds.Event):
        with pytest.raises(ConfigurationError, match="built-in"):
            check_answer("kind", kind.kind, {})


def test_no_module_hides_the_library():
    """Whatever Python's library holds, a kind of that name gets another module."""
    for name in sys.stdlib_module_names:
        assert module_of(name.capitalize()) not in sys.stdlib_module_names
