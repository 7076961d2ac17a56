"""Scans that the server of a REST catalog plans: what is asked, in which steps, and what each answer leads to."""

from __future__ import annotations

import copy
import json
import re
import time
from urllib.parse import unquote

import pyarrow as pa
import pytest
from scripted_server import Reply, failure
from table_server import ENDPOINTS, Tables, table_server

import skerry
from skerry.errors import FormatError, NotFoundError, SchemaError, SkerryError, StorageError, UnsupportedError
from skerry.http import retries
from skerry.iceberg.catalogs import rest_planning
from skerry.iceberg.metadata.json_object import JsonObject
from skerry.iceberg.planning.expression_json import expression_of
from skerry.iceberg.planning.server_files import Bounds, file_of
from skerry.table.predicate import parse

PLAN = "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/plan"
POLL = "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}/plan/{plan-id}"
CANCEL = "DELETE /v1/{prefix}/namespaces/{namespace}/tables/{table}/plan/{plan-id}"
TASKS = "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/tasks"
ALL = [*ENDPOINTS, PLAN, POLL, CANCEL, TASKS]
SCHEMA = pa.schema([("id", pa.int64()), ("s", pa.string()), ("f", pa.float64())])


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    for name in ("_FIRST_PAUSE_S", "_LONGEST_PAUSE_S"):
        monkeypatch.setattr(retries, name, 0.0)
        monkeypatch.setattr(rest_planning, name, 0.001)


class Planning(Tables):
    """One table `n.a` of three files, and the answers to requests for its scans; the last of several is repeated."""

    def __init__(self, folder, schema=SCHEMA):
        super().__init__(folder / "w", ("a",), schema, {})
        self.config = {"scan-planning-mode": "server"}
        self.plan = self.poll = self.tasks = None
        table = skerry.connect(folder / "w").load_table("n.a")
        for number in range(3):
            table.append(pa.table({"id": [number], "s": [f"s{number}"], "f": [number / 2]}, schema=schema))
        state = table.handle.state
        self.known["a"] = (state.metadata_location, _json(state))
        self.files = [
            {
                "spec-id": 0,
                "content": "data",
                "file-path": task.data_file.location,
                "file-format": "parquet",
                "partition": [],
                "file-size-in-bytes": task.data_file.file_size_bytes,
                "record-count": 1,
            }
            for number in range(3)
            for task in table.scan(where=f"id = {number}").plan()
        ]
        self.folder = state.metadata.location

    def completed(self, *numbers, **more):
        tasks = [{"data-file": copy.deepcopy(self.files[number])} for number in numbers]
        return {"status": "completed", "file-scan-tasks": tasks, **more}

    def answer(self, request):
        path = request.path.partition("?")[0]
        for end, replies in (("/plan", self.plan), ("/tasks", self.tasks), ("", self.poll)):
            if (path.endswith(end) and end) or (not end and "/plan/" in path and request.method == "GET"):
                found = replies(request) if callable(replies) else replies
                return found if isinstance(found, Reply) else Reply(200, found)
        return Reply(204) if "/plan/" in path else super().answer(request)


def _json(state):
    return json.loads(state.storage.read(state.metadata_location))


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    return Planning(tmp_path_factory.mktemp("planning"))


@pytest.fixture
def tables(prepared):
    """The same files for every test, with a state and answers of its own."""
    found = copy.copy(prepared)
    found.known, found.config = dict(prepared.known), dict(prepared.config)
    return found


def serve(tables, **config):
    return table_server(tables, **{"endpoints": ALL, **config})


def load(server, **properties):
    return skerry.connect(f"rest+{server.uri}", **properties).load_table("n.a")


def ids(scan):
    return sorted(scan.to_arrow()["id"].to_pylist())


def canceled(server):
    return [unquote(request.path.rpartition("/")[2]) for request in server.seen("DELETE")]


# ---- the steps ----


def test_a_plan_in_one_answer(tables):
    tables.plan = tables.completed(0, 1, 2)
    with serve(tables) as server:
        table = load(server)
        scan = table.scan(["id", "f"], where="id > 0 AND s <> 'x'")
        assert ids(scan) == [1, 2]
        assert scan.count() == 2
        assert "planned  by the catalog's server" in str(scan.explain())
        (request,) = server.seen("POST", "/plan")
    assert request.json == {
        "snapshot-id": table.handle.state.snapshot().snapshot_id,
        "case-sensitive": True,
        "use-snapshot-schema": False,
        "select": ["id", "f", "s"],
        "filter": {
            "type": "and",
            "left": {"type": "gt", "term": "id", "value": 0},
            "right": {"type": "not-eq", "term": "s", "value": "x"},
        },
        "stats-fields": ["id", "s"],
    }
    assert request.headers["x-iceberg-access-delegation"] == "vended-credentials"


def test_a_plan_is_awaited_and_its_tasks_are_fetched(tables):
    polls = iter([{"status": "submitted"}, {"status": "submitted"}, tables.completed(0, **{"plan-tasks": ["x", "y"]})])
    more = {"x": {**tables.completed(1), "plan-tasks": ["z"]}, "y": {}, "z": tables.completed(2)}
    tables.plan = {"status": "submitted", "plan-id": "p/1"}
    tables.poll = lambda _: next(polls)
    tables.tasks = lambda request: more[request.json["plan-task"]]
    with serve(tables) as server:
        assert ids(load(server).scan()) == [0, 1, 2]
        assert [request.path.rpartition("/plan/")[2] for request in server.seen("GET", "/plan/")] == ["p%2F1"] * 3
        assert sorted(request.json["plan-task"] for request in server.seen("POST", "/tasks")) == ["x", "y", "z"]
        assert canceled(server) == []


@pytest.mark.parametrize(
    ("kind", "starts"),
    [("refuses", ["first", "first", "second"]), ("includes", ["first", "second", "third"]), ("leaves out", None)],
)
def test_changes_of_appends_are_planned_by_the_server(tables, kind, starts):
    """Servers differ in whether `start-snapshot-id` is in the plan."""
    with serve(tables) as server:
        table = load(server)
        first, second, third = (snapshot.snapshot_id for snapshot in table.snapshots())
        commits = [None, first, second, third]

        def plan(request):
            span = [request.json.get(name) for name in ("start-snapshot-id", "end-snapshot-id")]
            if span == [None, None]:
                assert request.json["snapshot-id"] == first
                return tables.completed(0)
            start, end = map(commits.index, span)
            if start == end and kind == "refuses":
                return Reply(400, {"error": {"message": "no ancestor", "type": "BadRequest", "code": 400}})
            return tables.completed(*range(start - (kind == "includes"), end))

        tables.plan = plan
        changed = table.changes(columns=["s", "id"], where="id > 0 OR s = 's0'").to_arrow()
        assert changed.select([0, 1, 2, 3]).to_pydict() == {
            "s": ["s0", "s1", "s2"],
            "id": [0, 1, 2],
            "_change_type": ["INSERT"] * 3,
            "_change_ordinal": [0, 1, 2],
        }
        assert changed["_commit_snapshot_id"].to_pylist() == [first, second, third]
        ids_of = {"first": first, "second": second, "third": third}
        asked = [request.json["start-snapshot-id"] for request in server.seen("POST", "/plan")[1:]]
        assert asked == [ids_of[name] for name in starts or ("first", "first", "second", "second")]
        tables.plan = {"status": "failed", "error": {"message": "too busy", "type": "X", "code": 503}}
        with pytest.raises(StorageError, match="failed to plan the scan: too busy"):
            table.changes(second).to_arrow()


def test_other_reads_and_changes_are_planned_here(tables):
    with serve(tables) as server:
        table = load(server)
        assert table.statistics()["id"].ndv == 3
        table.delete("id = 1")
        assert server.seen("POST", "/plan") == []
        tables.plan = tables.completed(0, 2)
        assert ids(table.scan()) == [0, 2]


@pytest.mark.parametrize(
    ("of_table", "of_catalog", "by_server"),
    [
        ({}, {}, False),
        ({"scan-planning-mode": "client"}, {"scan-planning-mode": "server"}, False),
        ({"scan-planning-mode": "SERVER"}, {"scan-planning-mode": "client"}, True),
        ({}, {"scan-planning-mode": "server"}, True),
    ],
)
def test_the_configuration_of_the_table_decides_before_that_of_the_catalog(tables, of_table, of_catalog, by_server):
    tables.config = of_table
    tables.plan = tables.completed(0)
    with serve(tables, overrides=of_catalog) as server:
        assert load(server).scan().is_planned_by_server is by_server
        assert len(ids(load(server).scan())) == (1 if by_server else 3)


def test_modes_and_times_that_are_unknown_are_refused(tables):
    tables.config = {"scan-planning-mode": "whatever"}
    with serve(tables) as server:
        with pytest.raises(UnsupportedError, match="only client and server are"):
            load(server).scan()
        tables.config = {"scan-planning-mode": "server"}
        with pytest.raises(SchemaError, match=r"rest-scan-planning\.poll-timeout-ms"):
            load(server, **{"rest-scan-planning.poll-timeout-ms": "soon"}).scan()


@pytest.mark.parametrize("missing", [PLAN, POLL, TASKS])
def test_an_endpoint_that_the_server_does_not_offer_is_named(tables, missing):
    tables.plan = {"status": "submitted", "plan-id": "p"}
    tables.poll = tables.completed(0, **{"plan-tasks": ["x"]})
    with serve(tables, endpoints=[endpoint for endpoint in ALL if endpoint != missing]) as server:
        with pytest.raises(UnsupportedError, match=re.escape(missing)):
            load(server).scan().count()
        assert canceled(server) == ([] if missing is PLAN else ["p"])


def test_a_plan_comes_with_credentials_of_its_own(tables):
    tables.plan = tables.completed(
        0,
        **{
            "plan-id": "p",
            "storage-credentials": [
                {"prefix": tables.folder, "config": {"s3.access-key-id": "plan", "s3.secret-access-key": "hush-hush"}}
            ],
        },
    )
    tables.config |= {"s3.access-key-id": "table", "s3.session-token": "hush-too", "s3.region": "r"}
    with serve(tables) as server:
        table = load(server)
        scan = table.scan()
        assert ids(scan) == [0]
        assert scan.row_reader().storage.options == {
            "s3.access-key-id": "plan",
            "s3.secret-access-key": "hush-hush",
            "s3.region": "r",
        }
        assert table.handle.state.storage.options["s3.access-key-id"] == "table"
        assert "hush" not in f"{scan!r}{scan.explain()}{scan.row_reader()!r}{scan.plan()!r}"


def test_credentials_of_a_plan_are_renewed_by_its_id(tables):
    def credentials(number, lives_s):
        config = {"s3.access-key-id": f"k{number}", "s3.secret-access-key": "hush-hush"}
        expiry = {"s3.session-token-expires-at-ms": str(int((time.time() + lives_s) * 1000))}
        return [{"prefix": tables.folder, "config": {**config, **expiry}}]

    tables.plan = tables.completed(0, **{"plan-id": "p", "storage-credentials": credentials(1, 0)})
    offered = "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}/credentials"
    answer = tables.answer
    asked = []

    def answered(request):
        if "/credentials" in request.path:
            asked.append(request.path.partition("?")[2])
            return Reply(200, {"storage-credentials": credentials(2, 1000)})
        return answer(request)

    tables.answer = answered
    with serve(tables, endpoints=[*ALL, offered]) as server:
        renewed = load(server).scan().row_reader().storage.renewed
        assert renewed.current()[0]["s3.access-key-id"] == "k2"
    assert asked == ["planId=p"]


def test_queries_are_planned_by_the_server(tables):
    tables.plan = tables.completed(1, 2)
    with serve(tables) as server:
        catalog = skerry.connect(f"rest+{server.uri}")
        assert catalog.sql("SELECT sum(id)::BIGINT AS n FROM n.a WHERE s > 's0'").to_pylist() == [{"n": 3}]
        filters = [request.json["filter"] for request in server.seen("POST", "/plan") if "filter" in request.json]
        assert {"type": "gt", "term": "s", "value": "s0"} in filters


@pytest.mark.spark
def test_frames_of_spark_are_planned_by_the_server(tables, spark):
    import skerry.spark

    tables.plan = tables.completed(1, 2)
    with serve(tables) as server:
        frame = skerry.spark.read(spark, load(server), where="f >= 0.5")
        assert sorted(row.id for row in frame.collect()) == [1, 2]
        assert frame.where("id = 2").count() == 1
        skerry.spark.register(spark)
        options = {"catalog": f"rest+{server.uri}", "table": "n.a"}
        again = spark.read.format("skerry").options(**options).load()
        assert sorted(row.id for row in again.collect()) == [1, 2]


# ---- failures ----


@pytest.mark.parametrize(
    ("status", "kind", "match"),
    [
        ({"status": "failed", "error": {"message": "too\nlarge", "type": "E", "code": 500}}, StorageError, "too large"),
        ({"status": "failed"}, StorageError, "failed to plan the scan"),
        ({"status": "cancelled"}, StorageError, "cancelled its plan"),
        ({"status": "done"}, FormatError, "the status of a plan"),
        ({}, FormatError, "the status of a plan"),
        ([], FormatError, "not an object"),
        (failure(404, "NoSuchPlanIdException", "gone"), StorageError, "lost its plan of the scan"),
        (failure(500), StorageError, "failed"),
        (Reply(200, b"nonsense"), FormatError, "not JSON"),
    ],
)
def test_a_plan_that_is_never_completed(tables, status, kind, match):
    tables.plan = {"status": "submitted", "plan-id": "p"}
    tables.poll = status
    with serve(tables) as server:
        with pytest.raises(kind, match=match):
            load(server).scan().count()
        ended = isinstance(status, dict) and status.get("status") in ("failed", "cancelled", "done", None)
        assert canceled(server) == ([] if ended else ["p"])


def test_a_server_that_never_ends_planning_is_left_in_time_and_told(tables):
    tables.plan = {"status": "submitted", "plan-id": "p"}
    tables.poll = {"status": "submitted"}
    with serve(tables) as server:
        with pytest.raises(StorageError, match=r"has not planned the scan within 0\.05 s"):
            load(server, **{"rest-scan-planning.poll-timeout-ms": "50"}).scan().count()
        assert canceled(server) == ["p"]


def test_an_interrupted_plan_is_cancelled(tables, monkeypatch):
    def interrupt(_):
        raise KeyboardInterrupt

    tables.plan = {"status": "submitted", "plan-id": "p"}
    monkeypatch.setattr(rest_planning.time, "sleep", interrupt)
    with serve(tables) as server:
        with pytest.raises(KeyboardInterrupt):
            load(server).scan().count()
        assert canceled(server) == ["p"]


@pytest.mark.parametrize(
    ("first", "tasks", "kind", "match"),
    [
        (["x"], {"plan-tasks": ["x"]}, FormatError, "repeat or do not end"),
        (["x", "x"], {}, FormatError, "repeat or do not end"),
        ([1], {}, FormatError, "plan-tasks is not a list of texts"),
        ("x", {}, FormatError, "plan-tasks is not a list of texts"),
        (["x"], failure(404, "NoSuchPlanTaskException", "gone"), StorageError, "lost a part of its plan"),
        (["x"], [], FormatError, "not an object"),
    ],
)
def test_tasks_that_cannot_be_fetched(tables, first, tasks, kind, match):
    tables.plan = tables.completed(0, **{"plan-id": "p", "plan-tasks": first})
    tables.tasks = tasks
    with serve(tables) as server:
        with pytest.raises(kind, match=match):
            load(server).scan().count()
        assert canceled(server) == ["p"]


def test_planning_is_repeated_while_the_server_is_busy(tables):
    answers = iter([failure(503), failure(502), tables.completed(0)])
    tables.plan = lambda _: next(answers)
    with serve(tables) as server:
        assert load(server).scan().count() == 1


def test_a_table_that_is_gone(tables):
    tables.plan = failure(404, "NoSuchTableException", "n.a")
    with serve(tables) as server, pytest.raises(NotFoundError):
        load(server).scan().count()


def test_what_a_server_does_not_say_is_not_guessed(tables):
    with serve(tables) as server, pytest.raises(UnsupportedError, match="_last_updated_sequence_number"):
        load(server).scan(["id", "_last_updated_sequence_number"]).to_arrow()


# ---- hostile answers ----

DELETES = {"content": "position-deletes", "file-format": "parquet"}
VECTOR = {"content": "position-deletes", "file-format": "puffin", "content-offset": 4, "content-size-in-bytes": 40}
BAD_FILES = {
    "content": ({"content": "rows"}, "content"),
    "deletes as data": ({"content": "position-deletes"}, "reads a delete file"),
    "no path": ({"file-path": None}, "file-path: is missing"),
    "no format": ({"file-format": 7}, "file-format"),
    "negative rows": ({"record-count": -1}, "record-count: is -1"),
    "huge rows": ({"record-count": 1 << 70}, "record-count"),
    "rows as text": ({"record-count": "1"}, "record-count"),
    "negative size": ({"file-size-in-bytes": -5}, "file-size-in-bytes: is -5"),
    "unknown spec": ({"spec-id": 7}, "no partition spec 7"),
    "no spec": ({"spec-id": True}, "spec-id"),
    "partition": ({"partition": [1]}, "an array of 0 values"),
    "offsets": ({"split-offsets": [4, "x"]}, "split-offsets"),
    "row id": ({"first-row-id": -1}, "first-row-id: is -1"),
    "counts": ({"value-counts": {"keys": [1, 2], "values": [1]}}, "2 keys and 1 values"),
    "negative counts": ({"null-value-counts": {"keys": [1], "values": [-1]}}, "not negative"),
    "bounds": ({"lower-bounds": {"keys": [1], "values": ["xy"]}}, "bound of column 1"),
    "long bounds": ({"lower-bounds": {"keys": [1], "values": ["00" * 9]}}, "found 9"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_a_file_that_cannot_be(tables, case):
    change, match = BAD_FILES[case]
    tables.plan = tables.completed(0, 1)
    tables.plan["file-scan-tasks"][1]["data-file"].update(change)
    with serve(tables) as server, pytest.raises(FormatError, match=match):
        load(server).scan(where="id > 0").count()


BAD_PLANS = {
    "a file twice": (lambda plan, _: plan["file-scan-tasks"].append(plan["file-scan-tasks"][0]), "a data file twice"),
    "no list": (lambda plan, _: plan.update({"file-scan-tasks": {}}), "file-scan-tasks"),
    "no object": (lambda plan, _: plan["file-scan-tasks"].append(3), "expected an object"),
    "no file": (lambda plan, _: plan["file-scan-tasks"].append({}), "data-file: is missing"),
    "reference": (lambda plan, _: plan["file-scan-tasks"][0].update({"delete-file-references": [0]}), "below 0"),
    "data as deletes": (lambda plan, file: plan.update({"delete-files": [file]}), "a data file among"),
    "keys without columns": (
        lambda plan, file: plan.update({"delete-files": [{**file, "content": "equality-deletes"}]}),
        "equality-ids",
    ),
    "vector without offset": (
        lambda plan, file: plan.update({"delete-files": [{**file, **VECTOR, "content-offset": None}]}),
        "a deletion vector needs",
    ),
    "vector of keys": (
        lambda plan, file: plan.update(
            {"delete-files": [{**file, **VECTOR, "content": "equality-deletes", "equality-ids": [1]}]}
        ),
        "a deletion vector holds positions",
    ),
    "deletes of another": (
        lambda plan, file: (
            plan.update({"delete-files": [{**file, **DELETES, "referenced-data-file": "elsewhere"}]}),
            plan["file-scan-tasks"][0].update({"delete-file-references": [0]}),
        ),
        "are applied to another file",
    ),
    "two vectors": (
        lambda plan, file: (
            plan.update({"delete-files": [{**file, **VECTOR}, {**file, **VECTOR, "content-offset": 50}]}),
            plan["file-scan-tasks"][0].update({"delete-file-references": [0, 1]}),
        ),
        "two deletion vectors",
    ),
}


@pytest.mark.parametrize("case", BAD_PLANS)
def test_a_plan_that_cannot_be(tables, case):
    spoil, match = BAD_PLANS[case]
    tables.plan = tables.completed(0, 1)
    spoil(tables.plan, copy.deepcopy(tables.files[2]))
    with serve(tables) as server, pytest.raises(FormatError, match=match):
        load(server).scan().count()


@pytest.mark.parametrize("deletes", [False, True])
def test_files_elsewhere_and_encrypted_ones_are_refused(tables, deletes):
    for change, match in (
        ({"file-path": f"{tables.folder}-other/x"}, "outside"),
        ({"key-metadata": "00"}, "encrypted"),
    ):
        tables.plan = tables.completed(0)
        task = tables.plan["file-scan-tasks"][0]
        if deletes:
            tables.plan["delete-files"] = [{**tables.files[1], **DELETES, **change}]
            task["delete-file-references"] = [0]
        else:
            task["data-file"].update(change)
        with serve(tables) as server, pytest.raises(SkerryError, match=match):
            load(server).scan().to_arrow()


# ---- what is sent, what is read ----


@pytest.fixture(scope="module")
def typed(tmp_path_factory):
    schema = pa.schema(
        [
            ("i", pa.int32()),
            ("f", pa.float32()),
            ("s", pa.string()),
            ("x", pa.binary()),
            ("ts", pa.timestamp("us", "UTC")),
            ("m", pa.decimal128(5, 2)),
            ("p", pa.struct([("q", pa.int32())])),
        ]
    )
    return skerry.connect(tmp_path_factory.mktemp("typed")).create_table("n.t", schema).handle.state


def nan(term):
    return {"type": "is-nan", "term": term}


def between(term, low, high):
    return {
        "type": "and",
        "left": {"type": "gt-eq", "term": term, "value": low},
        "right": {"type": "lt", "term": term, "value": high},
    }


EXPRESSIONS = {
    "TRUE": True,
    "FALSE": False,
    "i IN (1, 2)": {"type": "in", "term": "i", "values": [1, 2]},
    "i NOT IN (1, 2)": {"type": "not-in", "term": "i", "values": [1, 2]},
    "i IS NULL": {"type": "is-null", "term": "i"},
    "p.q IS NOT NULL": {"type": "not-null", "term": "p.q"},
    "p.q IS NULL": True,
    "x = X'00'": True,
    "x = X'00' OR i = 1": True,
    "x = X'00' AND i = 1": {"type": "eq", "term": "i", "value": 1},
    "s LIKE 'a%'": between("s", "a", "b"),
    "s LIKE 'a\ud7ff%'": between("s", "a\ud7ff", "a\ue000"),
    "s LIKE 'a\U0010ffff%'": between("s", "a\U0010ffff", "b"),
    "s LIKE '\U0010ffff%'": {"type": "gt-eq", "term": "s", "value": "\U0010ffff"},
    "s NOT LIKE 'a%'": {"type": "not-null", "term": "s"},
    "s IN ('a')": {"type": "eq", "term": "s", "value": "a"},
    "f < 1.5": {"type": "lt", "term": "f", "value": 1.5},
    "f > 1.5": {"type": "or", "left": {"type": "gt", "term": "f", "value": 1.5}, "right": nan("f")},
    "isnan(f)": nan("f"),
    "f <= 0": {"type": "lt-eq", "term": "f", "value": 0.0},
    "f <> 0": {"type": "not-null", "term": "f"},
    "f < 'Infinity'": True,
    "m = 1.5": {"type": "eq", "term": "m", "value": "1.50"},
    "ts >= '2024-01-02T03:04:05Z'": {"type": "gt-eq", "term": "ts", "value": "2024-01-02T03:04:05+00:00"},
    "ts >= '20240-01-01'": True,
}


@pytest.mark.parametrize("where", EXPRESSIONS)
def test_conditions_become_expressions_that_are_never_narrower(typed, where):
    schema = typed.metadata.schema()
    assert expression_of(parse(where, typed.schema), schema, lambda _: True) == EXPRESSIONS[where]
    assert expression_of(parse("i = 1", typed.schema), schema, lambda _: False) is True


def test_long_conditions_are_nested_little(typed):
    where = " OR ".join(f"(i = {n} AND s = 'x{n}')" for n in range(500))
    found = expression_of(parse(where, typed.schema), typed.metadata.schema(), lambda _: True)

    def depth(node):
        return 1 + max((depth(node[side]) for side in ("left", "right") if side in node), default=0)

    assert depth(found) < 15


def test_bounds_are_read_in_the_form_in_which_they_are(typed):
    schema = typed.metadata.schema()
    numbers = {name: schema.find_field(name).field_id for name in ("i", "s", "m", "x", "ts")}

    def read(**values):
        file = {"content": "data", "file-path": "f", "file-format": "parquet", "spec-id": 0}
        bounds = {"keys": [numbers[name] for name in values], "values": list(values.values())}
        item = {**file, "record-count": 1, "file-size-in-bytes": 1, "lower-bounds": bounds}
        found = file_of(JsonObject(item))
        encoded = Bounds(schema, [found]).encoded(found["lower_bounds"], "f")
        names = {number: name for name, number in numbers.items()}
        return {names[key]: value for key, value in encoded}

    one = b"\x01\0\0\0"
    assert read(i="01000000", s="3132", m="64") == {"i": one, "s": b"12", "m": b"\x64"}
    assert read(i=1, s="3132", m="1.00", x="ff") == {"i": one, "s": b"3132", "m": b"\x64", "x": b"\xff"}
    assert read(s="3132", m="64", x="ff") == {"x": b"\xff"}
    assert read(s="word") == {"s": b"word"}
    assert read(ts="1970-01-01T00:00:00.000001+00:00") == {"ts": b"\x01" + bytes(7)}
