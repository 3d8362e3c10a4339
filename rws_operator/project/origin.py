"""Where a new project gets rws-operator from, as pip takes it.

An answer is a checkout, a wheel, a git reference or a release; by default what this very program
was installed from. Either becomes a requirement (PEP 508) that needs no quoting in a Makefile but
for the `#` before a git reference's folder.
"""

from __future__ import annotations

import json
import re
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import unquote, urlsplit

from rws_operator.errors import ConfigurationError

PACKAGE = "rws-operator"
PROJECT_TOOLS = ("mypy", "pyright", "ruff", "uv")
"""What a starter's project needs for development beside this package."""

_RELEASE = re.compile(
    r"rws[-_.]operator(?P<versions>((\s*(==|~=|>=|<=|!=|>|<)\s*[\w.*+!-]+)(\s*,(?=.)|$))*)"
)
_GIT = re.compile(r"git\+(https|ssh|file)://[\w.~:/@%+=&?-]+(#subdirectory=[\w.~/%+-]+)?")
_WHEEL = re.compile(r"rws_operator-[^-]+-[\w.]+-\w+-[\w.]+\.whl")
_WHEEL_URL = re.compile(rf"https?://[\w.~:/@%+=&-]+/{_WHEEL.pattern}")
_DISTRIBUTION = re.compile(r"[\w.-]+")
_REMEDY = (
    "give a checkout's folder, a wheel (rws_operator-….whl), git+https://host/path@reference, or "
    "a release (rws-operator==0.1.0)"
)


def default_origin() -> str:
    """What this program was installed from: a folder, a wheel, a git reference or a release."""
    checkout = Path(__file__).parents[2]
    if _is_checkout(checkout):
        return str(checkout)
    try:
        installed = distribution(PACKAGE)
    except PackageNotFoundError:
        return PACKAGE
    noted = installed.read_text("direct_url.json")
    if noted is None:
        return f"{PACKAGE}=={installed.version}"
    return _noted_origin(json.loads(noted))


def runtime_packages() -> frozenset[str]:
    """What every project needs, directly or not: one of such a name would need itself."""
    found: set[str] = set()
    wanted = [PACKAGE, *PROJECT_TOOLS]
    while wanted:
        name = wanted.pop()
        if name not in found:
            found.add(name)
            wanted += _required_by(name)
    return frozenset(found)


def _required_by(package: str) -> list[str]:
    """What an installed package needs; of this one, what its extras need as well."""
    try:
        requirements = distribution(package).requires or []
    except PackageNotFoundError:  # not on this platform, or only a project has it
        return []
    needed = [each for each in requirements if package == PACKAGE or "extra ==" not in each]
    names = (_DISTRIBUTION.match(each) for each in needed)
    return [re.sub(r"[-_.]+", "-", each[0]).lower() for each in names if each]


def requirement_of(origin: str, extra: str | None = None) -> str:
    """The requirement that stands for an origin.

    Args:
        origin: What was answered.
        extra: The extra that is to be installed with it.

    Raises:
        ConfigurationError: It is no such thing, or is not there.
    """
    origin = origin.strip()
    package = PACKAGE if extra is None else f"{PACKAGE}[{extra}]"
    if release := _RELEASE.fullmatch(origin):
        return package + re.sub(r"\s+", "", release["versions"])
    if _GIT.fullmatch(origin) or _WHEEL_URL.fullmatch(origin):
        return f"{package} @ {origin}"
    if origin.startswith("git+"):
        raise ConfigurationError(
            f"{origin!r} is no git reference",
            remedy="write git+https://host/path@reference, if need be with #subdirectory=folder "
            "and nothing else behind it",
        )
    if "://" in origin and not origin.startswith("file:"):
        raise ConfigurationError(
            f"{origin!r} is no address of a wheel of {PACKAGE}",
            remedy="write https://host/path/rws_operator-….whl, with nothing behind it",
        )
    if not origin:
        raise ConfigurationError(f"nothing says where {PACKAGE} is", remedy=_REMEDY)
    path = _expanded(_path_of(origin)).absolute()
    if not path.exists():
        raise ConfigurationError(f"there is no {path}", remedy=_REMEDY)
    if not (_WHEEL.fullmatch(path.name) if path.is_file() else _is_checkout(path)):
        raise ConfigurationError(f"{path} is neither source nor wheel of {PACKAGE}", remedy=_REMEDY)
    return f"{package} @ {path.as_uri()}"


def _noted_origin(noted: dict[str, object]) -> str:
    """What pip noted down about an installation (PEP 610)."""
    url = str(noted["url"])
    if isinstance(vcs := noted.get("vcs_info"), dict):
        folder = f"#subdirectory={noted['subdirectory']}" if "subdirectory" in noted else ""
        return f"{vcs['vcs']}+{url}@{vcs['commit_id']}{folder}"
    return _path_of(url)


def _path_of(origin: str) -> str:
    parts = urlsplit(origin)
    return unquote(parts.path) if parts.scheme == "file" else origin


def _expanded(path: str) -> Path:
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise ConfigurationError(
            f"{path!r} begins at a home that is not known", remedy="write the folder's whole path"
        ) from error


def _is_checkout(folder: Path) -> bool:
    try:
        project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    except (OSError, KeyError, ValueError):
        return False
    return bool(project.get("name") == PACKAGE)
