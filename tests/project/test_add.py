"""`rws-operator add` as a user calls it, in a project that `new` made."""

import asyncio
import re
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from rws_operator.project.command import main
from rws_operator.testing import ControlPlane, TestCluster
from tests.starters.generated import crds, generate, remove_crd, run_python, unique_group

OWN_TESTS = 9
KIND_TESTS = 5
WEBHOOK_TESTS = 2


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A generated project, and the working directory in it."""
    made = generate(tmp_path, {"name": "shop-operator", "group": unique_group()})
    monkeypatch.chdir(made)
    return made


def add(*arguments: str, exit_code: int = 0) -> str:
    """Run the command; return what it printed."""
    done: Result = CliRunner().invoke(main, ["add", *arguments])
    assert done.exit_code == exit_code, done.output
    return done.output


def refused(*arguments: str) -> str:
    """Run the command, which refuses and changes nothing; return why."""
    before = contents()
    told = add(*arguments, exit_code=1)
    assert contents() == before
    assert told.startswith("Error: ")
    return told


def contents() -> dict[str, bytes]:
    """What all files of the project hold."""
    return {
        str(path): path.read_bytes()
        for path in Path().rglob("*")
        if path.is_file() and "cache" not in str(path)
    }


def program_lines() -> list[str]:
    """What the program imports of the project's modules."""
    return re.findall(r"^import app\.(\w+)$", Path("app/__main__.py").read_text(), re.MULTILINE)


@pytest.mark.timeout(300)
async def test_a_project_with_more_in_it_is_whole(
    project: Path, control_plane: ControlPlane, cluster: TestCluster
):
    """Linter, type checkers and all tests pass, with odd kinds of the same and another group."""
    another = unique_group()
    for arguments in (
        ["kind", "HTTPProbe"],
        ["kind", "X", "--plural", "x-es"],
        ["kind", "S3Bucket2", "--group", another, "--module", "async_"],
        ["kind", "L" * 59],
        ["webhook", "HTTPProbe"],
        ["webhook", "X"],
        ["webhook", "L" * 59],
    ):
        assert "made" in await asyncio.to_thread(add, *arguments)
    for command in (
        ["ruff", "format", "--check", "."],
        ["ruff", "check", "."],
        ["mypy"],
        ["pyright", "--pythonpath", sys.executable],
    ):
        await asyncio.to_thread(run_python, project, "-m", *command)
    tests = await asyncio.to_thread(
        run_python,
        project,
        "-m",
        "pytest",
        "-q",
        seconds=200,
        RWS_TEST_KUBECONFIG=str(control_plane.kubeconfig),
    )
    made = await asyncio.to_thread(crds, project)
    for name in made:
        await remove_crd(cluster, name)
    assert f"{OWN_TESTS + 4 * KIND_TESTS + 3 * WEBHOOK_TESTS} passed" in tests
    assert f"s3bucket2s.{another}" in made
    assert len(made) == 5


def test_only_what_is_new_changes(project: Path):
    """New files, and one line each in the program, in its sorted place."""
    before = contents()
    told = add("kind", "HTTPProbe") + add("webhook", "HTTPProbe")
    after = contents()
    assert sorted(after.keys() - before.keys()) == [
        "app/http_probe.py",
        "app/http_probe_webhooks.py",
        "examples/http_probe.yaml",
        "tests/test_http_probe.py",
        "tests/test_http_probe_unit.py",
        "tests/test_http_probe_webhooks.py",
    ]
    assert all(f"made {path}\n" in told for path in after.keys() - before.keys())
    changed = [path for path in before if before[path] != after[path]]
    assert changed == ["app/__main__.py"]
    added = b"import app.http_probe\nimport app.http_probe_webhooks\n"
    assert after[changed[0]].replace(added, b"") == before[changed[0]]


@pytest.mark.parametrize(
    "arguments",
    [["kind", "Shop"], ["webhook", "Shop"], ["kind", "Policy", "--module", "rules"]],
)
def test_twice_changes_nothing(project: Path, arguments: list[str]):
    """Neither what the starter had nor what was added, nor the time of any file."""
    add(*arguments)
    before = contents()
    times = {path: Path(path).stat().st_mtime_ns for path in before}
    assert add(*arguments) == "nothing to do: all of it is there\n"
    assert add(*arguments[:2]) == "nothing to do: all of it is there\n"
    assert contents() == before
    assert {path: Path(path).stat().st_mtime_ns for path in before} == times


def test_it_works_from_a_folder_below(project: Path, monkeypatch: pytest.MonkeyPatch):
    """The project is the one that the working directory is part of."""
    monkeypatch.chdir("tests")
    add("kind", "Till")
    assert (project / "app/till.py").exists()


def test_what_is_there_stays_as_it_is(project: Path):
    """A file of the user's is named and left, also where it is a dead link."""
    Path("tests/test_till.py").write_text("# mine\n")
    Path("examples/till.yaml").symlink_to("nowhere")
    told = add("kind", "Till")
    assert "left tests/test_till.py as it is\n" in told
    assert "left examples/till.yaml as it is\n" in told
    assert Path("tests/test_till.py").read_text() == "# mine\n"
    assert Path("examples/till.yaml").is_symlink()
    assert not Path("examples/nowhere").exists()
    assert Path("app/till.py").exists()


@pytest.mark.parametrize("written", range(6))
def test_what_was_ended_half_way_is_done_again(
    project: Path, monkeypatch: pytest.MonkeyPatch, written: int
):
    """Whichever write it dies in, the same command makes the rest; no partial file is left."""
    add("kind", "Till")
    wanted = contents()
    for path in [path for path in wanted if "till" in path]:
        Path(path).unlink()
    program = Path("app/__main__.py")
    program.write_text(program.read_text().replace("import app.till\n", ""))
    left = iter(range(written))
    replace = Path.replace

    def dying(self: Path, target: Path) -> Path:
        if next(left, None) is None:
            raise KeyboardInterrupt
        return replace(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", dying)
        died = CliRunner().invoke(main, ["add", "kind", "Till"])
    assert died.exit_code == (0 if written == 5 else 1)
    assert (contents() == wanted) is (written == 5)
    add("kind", "Till")
    assert contents() == wanted


def test_a_full_disk_is_one_line(project: Path, monkeypatch: pytest.MonkeyPatch):
    """A file that can't be written is named."""

    def full(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(Path, "write_bytes", full)
    told = add("kind", "Till", exit_code=1)
    assert told == "Error: app/till.py can't be written: no space left\n"


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["kind", "Pod"], "built-in pods"),
        (["kind", "till"], "CamelCase"),
        (["kind", "Till", "--group", "nodots"], "a domain name of your own"),
        (["kind", "Till", "--module", "class"], "a word of Python's"),
        (["kind", "SHOP"], "SHOP can't be told from Shop in app/shop.py"),
        (["kind", "SHOP", "--group", "b.example.com"], "both would be called shop"),
        (["kind", "ShopList"], "both would be called shoplist: choose another kind"),
        (["kind", "Till", "--plural", "shops"], "called shops: choose another --plural"),
        (["kind", "Shops"], "both would be called shops: choose another kind"),
        (["kind", "Shop", "--plural", "shopping"], "is in app/shop.py already, with plural shops"),
        (["kind", "Shop", "--module", "other"], "already, with module shop"),
        (["kind", "Till", "--module", "shop"], "there is app/shop.py already"),
        (["kind", "ShopWebhooks"], "there is app/shop_webhooks.py already"),
        (["kind", "ShopUnit"], "tests/test_shop_unit.py would be of both shop_unit and shop"),
        (["webhook", "Till"], "there is no kind Till in app/, but Shop: add it: rws-operator add"),
    ],
)
def test_a_clash_is_refused_by_its_reason(project: Path, arguments: list[str], why: str):
    """Before anything is written."""
    assert why in refused(*arguments)


def test_a_kind_is_refused_whose_tests_another_one_has(project: Path):
    """Whichever of the two comes first."""
    add("kind", "TillUnit")
    assert "tests/test_till_unit.py would be of both" in refused("kind", "Till")


def test_a_module_does_not_hide_what_the_package_has(project: Path):
    """The package's own names, and its folders, are not taken again."""
    package = Path("app/__init__.py")
    package.write_text(package.read_text() + "\nfor limits in [1]:\n    pass\n")
    Path("app/till").mkdir()
    assert "app/__init__.py has another limits" in refused("kind", "Limits")
    assert "there is app/till already" in refused("kind", "Till")
    add("kind", "Till", "--module", "cash")


def test_kinds_are_read_as_they_are_written(project: Path):
    """Constants, short names and folders of the user's own are understood."""
    Path("app/mine").mkdir()
    Path("app/mine/till.py").write_text(
        'GROUP = "a.example.com"\n'
        'KIND: str = "Till"\n'
        'class Anything(CustomResource, group=GROUP, version="v1", kind=KIND,\n'
        '               plural="tilling", short_names=["ti", "cash"]): ...\n'
    )
    assert "Till is defined in app/mine/till.py" in refused("kind", "Till")
    assert "Till is defined in app/mine/till.py" in refused("webhook", "Till")
    assert "both would be called tilling" in refused("kind", "Tool", "--plural", "tilling")
    assert "Cash can't be told from Till" in refused("kind", "Cash")


def test_webhooks_of_a_changed_kind_come_with_a_word(project: Path):
    """Their tests are for the starter's spec; a renamed class is refused."""
    add("kind", "Till")
    module = Path("app/till.py")
    text = module.read_text()
    module.write_text(text.replace("message:", "words:"))
    told = add("webhook", "Till")
    assert "Its tests write spec.message: have them write what app/till.py asks for." in told
    for path in ("app/till_webhooks.py", "tests/test_till_webhooks.py"):
        Path(path).unlink()
    module.write_text(
        text.replace("Till(", "TillV1(").replace('version="v1"', 'version="v1",kind="Till"')
    )
    assert "would import Till, which app/till.py lacks" in refused("webhook", "Till")


def test_webhooks_elsewhere_are_not_doubled(project: Path):
    """A second one of the same path would stop the program."""
    add("kind", "Till")
    with Path("app/till.py").open("a") as module:
        module.write("\n\n@operator.validate(Till)\ndef check(_: object) -> None: ...\n")
    assert "Till has webhooks in app/till.py" in refused("webhook", "Till")


def test_a_module_of_other_webhooks_is_not_taken_for_the_kind_s(project: Path):
    """It is left, and nobody is told that all is there; the class may be an attribute."""
    add("kind", "Till")
    module = Path("app/till_webhooks.py")
    module.write_text("from app import operator, till\n\n@operator.validate(till.Drawer)\n")
    with Path("app/till_webhooks.py").open("a") as more:
        more.write("def check(_: object) -> None: ...\n")
    assert "app/till_webhooks.py already, and it has no webhook of Till: write it there" in refused(
        "webhook", "Till"
    )
    module.write_text(module.read_text().replace("Drawer", "Till"))
    assert "made tests/test_till_webhooks.py" in add("webhook", "Till")


def test_the_project_s_own_form_is_kept(project: Path):
    """Another line length than the starter's is the project's right."""
    settings = Path("pyproject.toml")
    settings.write_text(settings.read_text().replace("line-length = 100", "line-length = 80"))
    add("kind", "Till")
    run_python(project, "-m", "ruff", "format", "--check", "app/till.py", "tests/test_till.py")
    settings.write_text(settings.read_text().replace("line-length = 80", "line-length = 0"))
    assert "app/till_webhooks.py: ruff format failed: " in refused("webhook", "Till")


def test_a_line_without_a_clear_place_is_told(project: Path):
    """The program is left alone, and the same command says the same."""
    program = Path("app/__main__.py")
    program.write_text("from app import operator, shop\n\noperator.main()\n")
    before = program.read_bytes()
    told = add("kind", "Till")
    assert "\n\nimport app.till\n" in told
    assert "made app/till.py" in told
    assert program.read_bytes() == before
    assert "\n\nimport app.till\n" in add("kind", "Till")
    program.unlink()
    assert "\n\nimport app.till\n" in add("kind", "Till")
    assert not program.exists()


def test_the_program_keeps_its_mode_and_its_link(project: Path):
    """Only its text is written, where it really is."""
    program = Path("app/__main__.py")
    real = program.rename("app/real.txt")
    real.chmod(0o750)
    program.symlink_to("real.txt")
    add("kind", "Till")
    assert program.is_symlink()
    assert "import app.till\n" in real.read_text()
    assert real.stat().st_mode & 0o777 == 0o750


@pytest.mark.parametrize(
    ("path", "text", "why"),
    [
        ("pyproject.toml", None, "is no project of rws-operator new: go to the folder"),
        ("pyproject.toml", '[project]\nname = "x"\n', "is no project of rws-operator new"),
        ("pyproject.toml", "[", "pyproject.toml can't be read"),
        ("app/__init__.py", "x = 1\n", "app/__init__.py makes no operator"),
        ("app/__init__.py", None, "app/__init__.py makes no operator"),
        ("app/shop.py", "class\n", "app/shop.py can't be read: invalid syntax"),
    ],
)
def test_no_such_project_is_one_line(project: Path, path: str, text: str | None, why: str):
    """What can't be added to is left as it is."""
    Path(path).unlink()
    if text is not None:
        Path(path).write_text(text)
    assert why in refused("kind", "Till")


def test_a_project_of_the_other_starter_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """One file has no room for more."""
    monkeypatch.chdir(generate(tmp_path, {"name": "tiny"}, "minimal"))
    assert "made out of the starter operator" in refused("webhook", "Tiny")


def test_nothing_is_needed_where_nothing_is_to_do(project: Path, monkeypatch: pytest.MonkeyPatch):
    """The packages that make files are asked for only then, by the command that brings them."""
    monkeypatch.setitem(sys.modules, "cookiecutter", None)
    assert "nothing to do" in add("webhook", "Shop")
    assert "pip install 'rws-operator[dev]'" in refused("kind", "Till")
