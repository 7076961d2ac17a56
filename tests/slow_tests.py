"""Which tests `make check` leaves out: those that took long when somebody looked last.

`slow_tests.txt` lists them by function, with all parameters. `make slow-tests` writes it again from a run of all tests
that need neither Spark nor a service. Processor time is counted, that of child processes included, so that other work
on the machine makes little difference. A test that is new, or was renamed, is fast until then; `@pytest.mark.slow` says
of a test that it is slow whatever it takes.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

LISTED = Path(__file__).with_suffix(".txt")
LIMIT_S = 0.25

CHECKS = ("tests/test_architecture.py", "tests/test_citations.py", "tests/test_documents.py")
"""What the check is for, whatever it takes."""

_taken: Counter[str] = Counter()


def name_of(node_id: str) -> str:
    """A test's function, without parameters and without its group."""
    return node_id.partition("[")[0].partition("@")[0]


def slow_tests() -> frozenset[str]:
    """The functions that are listed."""
    return frozenset(LISTED.read_text().split())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    slow = slow_tests()
    for item in items:
        if name_of(item.nodeid) in slow:
            item.add_marker(pytest.mark.slow)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--list-slow", action="store_true", help=f"write what takes over {LIMIT_S} s to {LISTED.name}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    yield from _counted(item)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    yield from _counted(item)


def _counted(item: pytest.Item) -> Iterator[None]:
    before = sum(os.times()[:4])
    try:
        return (yield)
    finally:
        item.user_properties.append(("processor_s", sum(os.times()[:4]) - before))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "teardown":
        _taken[name_of(report.nodeid)] += sum(value for key, value in report.user_properties if key == "processor_s")


def pytest_sessionfinish(session: pytest.Session) -> None:
    if session.config.getoption("--list-slow") and not hasattr(session.config, "workerinput"):
        slow = {name for name, taken in _taken.items() if taken > LIMIT_S and not name.startswith(CHECKS)}
        LISTED.write_text("".join(f"{name}\n" for name in sorted(slow)))
