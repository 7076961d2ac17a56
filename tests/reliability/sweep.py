"""The fault sweep: every operation, every call of it, every fault; and what is there afterwards.

    python tests/reliability/sweep.py folder/iceberg:append/12/kill        one case
    python tests/reliability/sweep.py folder/paimon:                       all that begin so
    python tests/reliability/sweep.py --seed 3 --seconds 60 folder/        as many of them as this processor time allows

With `--state FILE` what is done is written down, and skipped the next time. A case is run in a forked process that
has everything loaded, and looked at by another one. S3 and REST catalogs are named by `--s3` and `--rest`, in JSON, as
`test_fault_sweep.py` does.
"""

from __future__ import annotations

import argparse
import concurrent.futures.thread
import gc
import json
import os
import pickle
import random
import resource
import select
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from fault_injector import Call, Fault, Injector, Kind
from sweep_checks import Facts, Sight, finish
from sweep_operations import OPERATIONS, Operation
from sweep_places import FolderPlace, HivePlace, Place, place_of

from skerry.errors import CommitUnknownError, SkerryError, UnsupportedError

__all__ = ["fork", "main", "processor_seconds", "warm_up"]

HANG_SECONDS = 180


@dataclass(frozen=True)
class Outcome:
    """How an operation ended.

    Args:
        how: `returned`, `unknown`, `refused`, `error`, `interrupted`, `killed`, `foreign` or `hung`.
        message: What it said.
        calls: The calls that it made; none of a process that was killed.
    """

    how: str
    message: str = ""
    calls: tuple[Call, ...] = ()


@dataclass(frozen=True)
class Reference:
    """An operation without a fault.

    Args:
        before: What is seen if it was never begun.
        after: What is seen once it is done.
        calls: What it calls.
    """

    before: Sight
    after: Sight
    calls: tuple[Call, ...]

    @property
    def cases(self) -> list[Fault]:
        """Every fault of every call; after a read an error is one before it."""
        return [
            Fault(number, kind)
            for number, call in enumerate(self.calls, 1)
            for kind in Kind
            if call.has_effect or kind is not Kind.ERROR_AFTER
        ]


# Processes -----------------------------------------------------------------------------------------------------------


def fork(act: Callable[[], Any]) -> Any:
    """What a function returns in a process of its own; None if that was killed.

    Raises:
        RuntimeError: It failed, or took too long.
    """
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reads)
        try:
            answer = pickle.dumps((True, act()))
        except BaseException:
            answer = pickle.dumps((False, traceback.format_exc()))
        with os.fdopen(writes, "wb") as pipe:
            pipe.write(answer)
        os._exit(0)
    os.close(writes)
    data, deadline = b"", time.monotonic() + HANG_SECONDS
    with os.fdopen(reads, "rb") as pipe:
        while True:
            ready, _, _ = select.select([pipe], [], [], max(0, deadline - time.monotonic()))
            if not ready:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                raise RuntimeError(f"it took longer than {HANG_SECONDS} s")
            if not (piece := os.read(pipe.fileno(), 1 << 20)):
                break
            data += piece
    os.waitpid(child, 0)
    if not data:
        return None
    succeeded, answer = pickle.loads(data)
    if not succeeded:
        raise RuntimeError(answer)
    return answer


def perform(operation: Operation, place: Place, fault: Fault | None) -> Outcome:
    """Do an operation, one call of which goes wrong, as a process would that ends afterwards."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    catalog, injector = place.connect(), Injector(fault)
    injector.install()
    try:
        operation.act(catalog, place)
        how, message = "returned", ""
    except KeyboardInterrupt:
        how, message = "interrupted", ""
    except CommitUnknownError as error:
        how, message = "unknown", str(error)
    except SkerryError as error:
        not_here = isinstance(error, UnsupportedError) or "gc.enabled" in str(error)
        how = "unsupported" if fault is None and not_here else "error"
        message = f"{type(error).__name__}: {error}"
    except BaseException as error:
        how, message = "foreign", "".join(traceback.format_exception(error)[-6:])
    calls = tuple(injector.calls)
    concurrent.futures.thread._python_exit()  # what a process does at its end: threads finish what they have begun
    return Outcome(how, message, calls)


# Judging -------------------------------------------------------------------------------------------------------------


def judge(operation: Operation, kind: Kind, outcome: Outcome, sight: Sight, reference: Reference) -> list[str]:
    """What is not as promised."""
    wrong = list(sight.wrong)
    before, after = reference.before, reference.after
    if outcome.how in ("unknown", "interrupted", "killed"):
        sight = replace(sight, facts=without_old_name(sight.facts))
    is_before, is_after = sight.facts == before.facts, sight.facts == after.facts
    is_between = operation.in_steps and between(reference, sight)
    if outcome.how == "foreign":
        wrong.append("an error that is none of skerry's")
    if "the table was dropped, but not all of its files" in outcome.message:
        outcome = Outcome("unknown", outcome.message)  # it says what has happened
    if outcome.how == "returned" and not is_after:
        wrong.append(f"acknowledged, and not there: {difference(after, sight)}")
    elif outcome.how in ("error", "foreign") and not is_before and not (is_between and same_rows(before, sight)):
        wrong.append(f"a plain error, and not as before: {difference(before, sight)}")
    elif not (is_before or is_after or is_between):
        wrong.append(f"neither before nor after: {difference(before, sight)}; {difference(after, sight)}")
    if sight.again != after.again:
        wrong.append("done again, it has not the rows that it has when it is done once")
    written = sum(call.writes for call in reference.calls)
    if sight.files > max(before.files, after.files) + written:
        wrong.append(f"{sight.files} files, where the operation writes {written}: {before.files} -> {after.files}")
    known = [known.kept for known, is_it in ((before, is_before), (after, is_after)) if is_it]
    kept = after.kept if operation.repeats else max(known, default=max(before.kept, after.kept))
    kept += 0 if outcome.how == "returned" else operation.more_pieces
    in_doubt = operation.forgets_in_doubt and outcome.how in ("unknown", "killed")
    if sight.kept > kept and not operation.forgets_files and not in_doubt:
        wrong.append(f"{sight.kept - kept} files that removing orphans leaves ({kept} without a fault)")
    return wrong


def without_old_name(facts: Facts) -> Facts:
    """A table that is on its way to another format is under another name; once it has come the name means nothing."""
    hidden = {name: name.removesuffix("__migrating") for name in facts if name.endswith("__migrating")}
    kept = {name: table for name, table in facts.items() if name not in hidden}
    return {**{name: facts[other] for other, name in hidden.items()}, **kept}


def between(reference: Reference, sight: Sight) -> bool:
    """Whether each fact of each table is one of before or of after, or a table that comes is still empty."""
    before, after = reference.before.facts, reference.after.facts
    if any(name not in before and not table["rows"] for name, table in sight.facts.items()):
        return True
    return all(
        in_between([facts[name].get(fact) for facts in (before, after) if name in facts], table.get(fact))
        for name, table in sight.facts.items()
        for fact in {*before.get(name, {}), *after.get(name, {}), *table}
    )


def in_between(ends: list[Any], seen: Any) -> bool:
    """Whether a fact is one of two; a number, such as that of the snapshots left, may lie between them."""
    is_counted = isinstance(seen, int) and len(ends) == 2 and all(isinstance(end, int) for end in ends)
    return seen in ends or (is_counted and min(ends) < seen < max(ends))


def same_rows(before: Sight, sight: Sight) -> bool:
    """Whether a plain error has left the rows of every reference as they were."""
    return all(
        seen == before.facts.get(name, {}).get(fact, [])
        for name, table in sight.facts.items()
        for fact, seen in table.items()
        if fact.startswith("rows")
    )


def difference(expected: Sight, found: Sight) -> str:
    """The first few facts that differ."""
    told = []
    for name in sorted({*expected.facts, *found.facts}):
        if name not in found.facts or name not in expected.facts:
            told.append(f"{name} is {'not there' if name not in found.facts else 'there'}")
            continue
        for fact in {**expected.facts[name], **found.facts[name]}:
            wanted, seen = expected.facts[name].get(fact), found.facts[name].get(fact)
            if seen != wanted:
                told.append(f"{name} {fact} {brief(seen)} instead of {brief(wanted)}")
    return ", ".join(told) or "equal"


def brief(value: Any) -> str:
    """A value in a message."""
    text = f"{len(value)} rows" if isinstance(value, list) else repr(value)
    return text if len(text) < 200 else text[:200] + "…"


# Running -------------------------------------------------------------------------------------------------------------


def made(operation: Operation, place: Place) -> bool:
    """Make what there is before an operation; false if it is not supported here, such as branches by Nessie."""
    if operation.key in place.lacks:
        return False
    try:
        operation.prepare(place.connect(), place)
    except UnsupportedError:
        return False
    return True


class Sweep:
    """Operations at one place.

    Args:
        name: The place's name.
        place: The place.
    """

    def __init__(self, name: str, place: Place) -> None:
        self.name = name
        self.place = place
        self.seen: dict[tuple[str, bytes], Sight] = {}

    def prepare(self, operation: Operation) -> Reference | None:
        """Make what there is before; None if the operation is not supported here.

        Raises:
            RuntimeError: It fails without a fault, or what is seen then is wrong.
        """
        place = self.place
        place.clear()
        if not fork(lambda: made(operation, place)):
            return None
        place.save()
        before = fork(lambda: finish(place.connect(), place, operation, repeat=False))
        place.reset()
        outcome = fork(lambda: perform(operation, place, None))
        if outcome.how == "unsupported":
            return None
        if outcome.how != "returned":
            raise RuntimeError(f"{operation.key} fails without a fault: {outcome.how} {outcome.message}")
        after = fork(lambda: finish(place.connect(), place, operation))
        if before.wrong or after.wrong:
            raise RuntimeError(f"{operation.key} is wrong without a fault: {before.wrong} {after.wrong}")
        return Reference(before, after, outcome.calls)

    def run(self, operation: Operation, fault: Fault, reference: Reference) -> list[str]:
        """One case: what was wrong."""
        place = self.place
        place.reset()
        try:
            outcome = fork(lambda: perform(operation, place, fault)) or Outcome("killed")
        except RuntimeError as error:
            return [f"the process failed: {error}"]
        try:
            sight = self.see(operation)
        except RuntimeError as error:
            return [f"after {outcome.how} {outcome.message!r}: {str(error)[-1500:]}"]
        wrong = judge(operation, fault.kind, outcome, sight, reference)
        call = reference.calls[fault.number - 1].what
        return [f"at {call}, {outcome.how} {outcome.message!r}: {text}" for text in wrong]

    def see(self, operation: Operation) -> Sight:
        """What another process sees; what it saw before, if every byte is as it was then.

        Half of all faults hit an operation before it has changed anything.
        """
        place = self.place
        fingerprint = place.fingerprint()
        if fingerprint is None:
            return fork(lambda: finish(place.connect(), place, operation))
        key = operation.key, fingerprint
        if key not in self.seen:
            self.seen[key] = fork(lambda: finish(place.connect(), place, operation))
        return self.seen[key]


def case_name(place: str, operation: Operation, fault: Fault) -> str:
    """What replays it."""
    return f"{place}/{operation.key}/{fault.number}/{fault.kind.value}"


@dataclass
class State:
    """What has been done.

    Args:
        path: Where it is written down; nowhere if None.
    """

    path: Path | None

    def __post_init__(self) -> None:
        self.done: set[str] = set()
        if self.path is not None and self.path.exists():
            self.done = {json.loads(line)["case"] for line in self.path.read_text().splitlines()}

    def add(self, case: str, wrong: list[str]) -> None:
        """Write down a case."""
        self.done.add(case)
        if self.path is not None:
            with self.path.open("a") as file:
                file.write(json.dumps({"case": case, "wrong": wrong}) + "\n")


def processor_seconds() -> float:
    """What this process and those that it has started have used."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def warm_up(folder: Path) -> None:
    """Load what operations load when they are asked for first, so that every fork has it."""
    place = FolderPlace(folder)
    for key in ("iceberg:upsert", "iceberg:compact", "iceberg:apply_changes", "paimon:delete", "keyed:publish-upsert"):
        place.clear()
        operation = OPERATIONS[key]
        catalog = place.connect()
        operation.prepare(catalog, place)
        operation.act(catalog, place)
        finish(catalog, place, operation)
    gc.collect()
    gc.freeze()  # or the collector of each fork would touch, and so copy, all pages of this process


def places(arguments: argparse.Namespace, folder: Path) -> Iterator[Sweep]:
    """Where to sweep."""
    yield Sweep("folder", FolderPlace(folder / "folder"))
    (folder / "hive").mkdir()
    yield Sweep("hive", HivePlace(folder / "hive" / "place"))
    for name in ("s3", "rest"):
        if (settings := getattr(arguments, name)) is not None:
            (folder / name).mkdir()
            yield Sweep(name, place_of(name, folder / name, json.loads(settings)))


def main() -> int:
    """Sweep; 1 if something was wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", default=[""], help="beginnings of cases: place/kind:operation/number/fault")
    parser.add_argument("--seed", type=int, help="take cases at random")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="processor time")
    parser.add_argument("--state", type=Path, help="what was done, and is skipped")
    parser.add_argument("--s3", help="options and bucket, in JSON")
    parser.add_argument("--rest", help="options, bucket, uri and warehouse, in JSON")
    arguments = parser.parse_args()
    state, total, failed = State(arguments.state), 0, 0
    with tempfile.TemporaryDirectory(prefix="skerry-sweep-") as text:
        folder = Path(text)
        warm_up(folder / "warm")
        for sweep in places(arguments, folder):
            done, bad = sweep_place(sweep, arguments, state)
            total, failed = total + done, failed + bad
    print(f"{total} cases, {failed} wrong, {processor_seconds():.0f} s of processor time", flush=True)
    return 1 if failed else 0


def sweep_place(sweep: Sweep, arguments: argparse.Namespace, state: State) -> tuple[int, int]:
    """All cases of a place, or some of them at random; how many, and how many were wrong."""
    wanted = [
        operation
        for operation in OPERATIONS.values()
        if operation.format in sweep.place.formats
        and any(overlap(f"{sweep.name}/{operation.key}/", case) for case in arguments.cases)
    ]
    draw = None if arguments.seed is None else random.Random(f"{arguments.seed} {sweep.name}")
    end = processor_seconds() + arguments.seconds
    if draw is not None:
        draw.shuffle(wanted)
    total = failed = 0
    for operation in wanted:
        if processor_seconds() > end:
            break
        try:
            reference = sweep.prepare(operation)
        except RuntimeError as error:
            failed += 1
            print(f"WRONG {sweep.name}/{operation.key}: {error}", flush=True)
            continue
        if reference is None:
            print(f"{sweep.name}/{operation.key}: not supported", flush=True)
            continue
        faults = [
            fault
            for fault in reference.cases
            if (case := case_name(sweep.name, operation, fault)) not in state.done
            and any(case.startswith(wish) for wish in arguments.cases)
        ]
        if draw is not None:
            faults = draw.sample(faults, min(SAMPLE, len(faults)))
        wrong_here = 0
        for fault in faults:
            case = case_name(sweep.name, operation, fault)
            wrong = sweep.run(operation, fault, reference)
            state.add(case, wrong)
            wrong_here += bool(wrong)
            for line in wrong:
                print(f"WRONG {case}: {line}", flush=True)
        total, failed = total + len(faults), failed + wrong_here
        print(f"{sweep.name}/{operation.key}: {len(faults)} cases of {len(reference.calls)} calls", flush=True)
    return total, failed


SAMPLE = 6
"""Cases of an operation that are taken at random."""


def overlap(one: str, other: str) -> bool:
    """Whether one is the beginning of the other."""
    return one.startswith(other) or other.startswith(one)


if __name__ == "__main__":
    sys.exit(main())
