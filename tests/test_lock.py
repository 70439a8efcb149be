"""The lock files: what the container image installs is what pyproject.toml allows, and has hashes."""

import re
import tomllib
from collections.abc import Iterator

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from support.places import PROJECT

DECLARED = tomllib.loads((PROJECT / "pyproject.toml").read_text())
EXTRAS = DECLARED["project"]["optional-dependencies"]
LOCKS = ["requirements.lock", "requirements-build.lock"]


def locked(name: str) -> dict[str, str]:
    """The versions in a lock file."""
    entries = re.findall(r"^([\w.-]+)==(\S+)", (PROJECT / name).read_text(), re.MULTILINE)
    return {canonicalize_name(package): version for package, version in entries}


def wanted(requirements: list[str]) -> Iterator[Requirement]:
    """Requirements, those of the project's own extras in their place."""
    for each in map(Requirement, requirements):
        if each.name == DECLARED["project"]["name"]:
            for extra in each.extras:
                yield from wanted(EXTRAS[extra])
        else:
            yield each


def test_what_the_image_installs_is_what_the_project_allows() -> None:
    versions = locked("requirements.lock")
    image = ("proxy", "postgres", "otel", "tokens", "google", "phones")
    extras = [requirement for extra in image for requirement in EXTRAS[extra]]
    asked = DECLARED["project"]["dependencies"] + extras
    for each in wanted(asked):
        assert each.specifier.contains(versions[canonicalize_name(each.name)]), f"{each}; run: make lock"


def test_what_builds_the_package_is_what_the_project_allows() -> None:
    [asked] = DECLARED["build-system"]["requires"]
    backend = Requirement(asked)
    assert backend.specifier.contains(locked("requirements-build.lock")[backend.name])
    assert f"echo '{asked}'" in (PROJECT / "Makefile").read_text()


@pytest.mark.parametrize("name", LOCKS)
def test_every_file_has_a_hash_and_no_place_of_its_own(name: str) -> None:
    text = (PROJECT / name).read_text()
    assert "://" not in text
    for entry in re.split(r"^(?=[\w.-]+==)", text, flags=re.MULTILINE)[1:]:
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", entry)


@pytest.mark.parametrize("name", LOCKS)
def test_the_image_is_made_of_the_locks_on_a_base_of_one_exact_version(name: str) -> None:
    dockerfile = (PROJECT / "Dockerfile").read_text()
    assert re.search(rf"--require-hashes --requirement {re.escape(name)}", dockerfile)
    assert f"!{name}\n" in (PROJECT / ".dockerignore").read_text()
    first, *others = re.findall(r"^FROM (\S+)", dockerfile, re.MULTILINE)
    assert re.fullmatch(r"python:3\.\d+\.\d+-slim-\w+(@sha256:[0-9a-f]{64})?", first)
    assert set(others) == {"base"}
