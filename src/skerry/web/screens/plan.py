"""The plan of a scan: what a condition leaves to be read, step by step, and why the rest is left out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import Final

from skerry.errors import SkerryError
from skerry.markup import Column, Html, definitions, element, join, table
from skerry.markup.plots import share_bar
from skerry.paimon.planning.splits import Split
from skerry.table.files.scan_task import FileScanTask, ScanPlan, ScanStep
from skerry.table.table import Table
from skerry.web.later import Later
from skerry.web.listing import list_files
from skerry.web.query import Query, address
from skerry.web.source import Source
from skerry.web.values import count, pages, percent, size

__all__ = ["LATER", "PlanPage", "read_plan", "show_plan"]

_PER_PAGE: Final = 50


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """A file that is read: its path below the table's folder, its rows and bytes."""

    path: str
    rows: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class PlanPage:
    """What a scan would read.

    Args:
        where: The condition as it was given.
        problem: What is wrong with it.
        understood: The condition as it was understood.
        steps: The steps of planning.
        files: Files that are read.
        size_bytes: Their size.
        unfiltered: Those of them whose rows are all wanted.
        tasks: Tasks that readers would share.
        total_files: Data files of the table.
        total_bytes: Their size.
        rows: Rows that fulfil the condition, if they were to be counted.
        total_rows: Rows in data files.
        read: The files of this page, where the format says which are read.
    """

    where: str
    problem: str = ""
    understood: str = ""
    steps: list[ScanStep] = field(default_factory=list)
    files: int = 0
    size_bytes: int = 0
    unfiltered: int = 0
    tasks: int = 0
    total_files: int = 0
    total_bytes: int = 0
    rows: int | None = None
    total_rows: int = 0
    read: list[PlannedFile] = field(default_factory=list)


def read_plan(source: Source, query: Query) -> PlanPage:
    """The plan of a scan; with `count=yes` the rows are counted, which reads files."""
    opened = source.table(query.table)
    where = query.text("where").strip()
    listing = list_files(source, opened)
    is_data = listing.content == 0
    empty = PlanPage(
        where,
        total_files=int(is_data.sum()),
        total_bytes=int(listing.sizes[is_data].sum()),
        total_rows=int(listing.rows[is_data].sum()),
    )
    try:
        scan = opened.scan(where=where or None)
        found = source.remember(_key(opened, where), scan.explain)
        rows = scan.count() if query.text("count") == "yes" else None
    except SkerryError as error:
        return replace(empty, problem=str(error))
    first = query.number("page") * _PER_PAGE
    prefix = opened.location.rstrip("/") + "/"
    tasks = found.plan.tasks if isinstance(found.plan, ScanPlan) else scan.plan()
    files = chain.from_iterable(_files_of(task, prefix) for task in tasks)
    return replace(
        empty,
        understood=found.where,
        steps=list(found.plan.steps),
        files=len(found.plan.tasks),
        size_bytes=found.plan.tasks.size_bytes,
        unfiltered=found.plan.tasks.unfiltered_count,
        tasks=found.split_count,
        rows=rows,
        read=list(islice(files, first, first + _PER_PAGE)),
    )


def _key(opened: Table, where: str) -> tuple[str, str, str, str]:
    return ("plans", opened.location, opened.version, where)


def _files_of(task: object, prefix: str) -> Iterator[PlannedFile]:
    """The data files of a task: of an Iceberg table one, of a Paimon table those of a split."""
    if isinstance(task, FileScanTask):
        file = task.data_file
        yield PlannedFile(file.location.removeprefix(prefix), file.record_count, file.file_size_bytes)
    elif isinstance(task, Split):
        for each in task.files:
            yield PlannedFile(each.location.removeprefix(prefix), each.row_count, each.file_size)


# ---- showing ----


def show_plan(found: PlanPage, query: Query) -> Html:
    """A field for the condition, the funnel, and the files that are left."""
    return join(_head(query), _rest(found, query))


def _head(query: Query) -> Html:
    form = element(
        "form",
        element("input", type="hidden", name="t", value=query.table),
        element("label", "where", for_="where", class_="dim"),
        element(
            "input",
            id="where",
            name="where",
            value=query.text("where").strip(),
            placeholder="a condition, such as distance > 2000 and month = 3",
            autocomplete="off",
            spellcheck="false",
        ),
        element("button", "Plan"),
        element(
            "button",
            "Count rows",
            name="count",
            value="yes",
            class_="quiet",
            title="reads the files that metadata does not decide about",
        ),
        action="/plan",
        class_="ask",
        role="search",
    )
    title = element("span", "what a scan reads, and why not the rest", class_="dim")
    return join(element("div", element("h1", "Plan"), title, class_="title"), form)


def _rest(found: PlanPage, query: Query) -> Html:
    """The funnel and the files, or what is wrong with the condition."""
    if found.problem:
        return element("p", found.problem, class_="problem")
    share = found.size_bytes / found.total_bytes if found.total_bytes else 0.0
    facts = definitions(
        {
            "understood as": element("code", found.understood),
            "to read": f"{size(found.size_bytes)} of {size(found.total_bytes)} ({percent(share)})",
            "files": f"{count(found.files)} of {count(found.total_files)}",
            "need no filter": count(found.unfiltered),
            "tasks": count(found.tasks),
            "rows": None if found.rows is None else f"{count(found.rows)} of {count(found.total_rows)}",
        }
    )
    return join(element("div", facts, class_="facts"), _funnel(found), _files(found, query))


LATER: Final = Later(lambda opened, query: _key(opened, query.text("where").strip()), _head, _rest)


def _funnel(found: PlanPage) -> Html:
    """A bar per step: what is kept of what has entered, and reasons for the rest."""
    steps = []
    for step in found.steps:
        share = step.kept / step.total if step.total else 0.0
        rows = (
            ""
            if step.kept_rows is None or step.total_rows is None
            else f"{count(step.kept_rows)} of {count(step.total_rows)} rows"
        )
        reasons = [
            element("li", element("span", f"−{number:,}", class_="n"), element("span", reason))
            for reason, number in step.dropped
        ]
        more = element("ul", reasons, class_="reasons") if reasons else None
        steps.append(_step(step.name, share, f"{step.kept:,} of {step.total:,}", rows, more))
    share = found.size_bytes / found.total_bytes if found.total_bytes else 0.0
    kept = f"{size(found.size_bytes)} of {size(found.total_bytes)}"
    steps.append(_step("bytes to read", share, kept, percent(share)))
    if found.rows is not None:
        share = found.rows / found.total_rows if found.total_rows else 0.0
        steps.append(_step("rows that match", share, f"{found.rows:,} of {found.total_rows:,}", percent(share)))
    return element("section", element("h2", "Funnel"), element("ol", steps, class_="funnel"))


def _step(name: str, share: float, kept: str, rest: str, more: Html | None = None) -> Html:
    """A line of the funnel: the share that is kept as a bar, and in words."""
    return element(
        "li",
        element("span", name, class_="step"),
        _bar(share, kept),
        element("span", kept, class_="n"),
        element("span", rest, class_="dim"),
        more,
    )


def _bar(share: float, title: str) -> Html:
    return element(
        "svg",
        element("title", title),
        element("rect", width=400, height=16, class_="bar-rest"),
        element("rect", width=max(share * 400, 1.5 if share else 0), height=16, class_="bar"),
        viewBox="0 0 400 16",
        preserveAspectRatio="none",
        role="img",
        class_="funnel-bar",
    )


def _files(found: PlanPage, query: Query) -> Html | None:
    largest = max((line.size_bytes for line in found.read), default=1)
    columns = [
        Column[PlannedFile](
            "file",
            lambda line: element("a", line.path, href=address("/file", t=query.table, path=line.path), class_="path"),
        ),
        Column[PlannedFile]("rows", lambda line: count(line.rows), right=True),
        Column[PlannedFile]("size", lambda line: size(line.size_bytes), right=True),
        Column[PlannedFile]("", lambda line: share_bar(line.size_bytes / max(largest, 1), size(line.size_bytes))),
    ]
    return element(
        "section",
        element("h2", "Files to read", element("span", count(found.files), class_="dim")),
        table(found.read, columns, caption="files to read", empty="nothing need be read"),
        pages(lambda number: query.with_(page=number), query.number("page"), _PER_PAGE, found.files, "files"),
    )
