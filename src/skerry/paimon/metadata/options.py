"""A table's options with their types and defaults.

Only options that affect this package are defined here; `skerry.paimon.metadata.validation` decides which of the others
are refused.

Spec: docs/formats/paimon.md; Paimon Java, `CoreOptions`.
"""

from __future__ import annotations

from typing import Final

from skerry.paimon.metadata.option_values import (
    BucketFunction,
    ChangelogProducer,
    FileFormat,
    LookupCompact,
    MergeEngine,
    OptionTexts,
    parse_levels,
)
from skerry.paimon.metadata.paths import MAIN_BRANCH, TablePaths
from skerry.table.properties import BACKGROUND_PROPERTY

__all__ = [
    "FALLBACK_BRANCH",
    "MERGE_ON_READ",
    "BucketFunction",
    "ChangelogProducer",
    "CoreOptions",
    "FileFormat",
    "LookupCompact",
    "MergeEngine",
]

FALLBACK_BRANCH: Final = "scan.fallback-branch"
MERGE_ON_READ: Final = "deletion-vectors.merge-on-read"
_MEBIBYTE: Final = 1 << 20


class CoreOptions(OptionTexts):
    """A table's options, each parsed when it is accessed.

    Every property raises `SchemaError` for a text that is not valid for its type, and `UnsupportedError` for an unknown
    choice; the message names the option.

    Args:
        options: Texts by name, as in the schema file.
    """

    def check(self) -> None:
        """Parse all options.

        Raises:
            SchemaError: An option has an invalid value.
            UnsupportedError: An option has an unknown choice.
        """
        self.paths("")
        for name, member in vars(type(self)).items():
            if isinstance(member, property):
                getattr(self, name)

    # ---- layout ----

    def paths(self, root: str, branch: str = MAIN_BRANCH) -> TablePaths:
        """The locations of the table's files."""
        return TablePaths(
            root,
            branch,
            data_folder=self.options.get("data-file.path-directory", "").strip("/"),
            default_partition=self.options.get("partition.default-name", "__DEFAULT_PARTITION__"),
            index_beside_data=self._bool("index-file-in-data-file-dir", False),
        )

    @property
    def fallback_branch(self) -> str | None:
        """The branch from which batch reads take partitions that this one does not have; None if not set."""
        return self.options.get(FALLBACK_BRANCH, "").strip() or None

    @property
    def legacy_partition_names(self) -> bool:
        """Whether paths contain partition values in their internal form, such as days as numbers."""
        return self._bool("partition.legacy-name", True)

    @property
    def bucket(self) -> int:
        """Buckets per partition; -1 for none (append) or dynamic (primary key), -2 for postponed."""
        return self._int("bucket", -1)

    @property
    def bucket_function(self) -> BucketFunction:
        """How buckets are computed from bucket keys."""
        return self._choice("bucket-function.type", BucketFunction.DEFAULT)

    @property
    def dynamic_bucket_target_rows(self) -> int:
        """Number of keys of a dynamic bucket from which on another one is created."""
        return self._int("dynamic-bucket.target-row-num", 2_000_000)

    @property
    def dynamic_bucket_max(self) -> int:
        """Maximum number of dynamic buckets per partition; -1 for no limit."""
        return self._int("dynamic-bucket.max-buckets", -1)

    @property
    def postpone_buckets(self) -> int:
        """Buckets of a new partition of a table with postponed buckets."""
        return self._int("postpone.default-bucket-num", 1)

    @property
    def postpone_waits(self) -> bool:
        """Whether new rows of such a table wait for a compaction that puts them into buckets."""
        return not self._bool("postpone.batch-write-fixed-bucket", default=True)

    # ---- rows ----

    @property
    def merge_engine(self) -> MergeEngine:
        """How records of one key are merged into one row."""
        return self._choice("merge-engine", MergeEngine.DEDUPLICATE)

    @property
    def ignore_delete(self) -> bool:
        """Whether records of kind -U and -D are ignored, in writing and in merging."""
        return any(self._bool(name, False) for name in _IGNORE_DELETE)

    @property
    def ignore_update_before(self) -> bool:
        """Whether records of kind -U are ignored."""
        return self._bool("ignore-update-before", False)

    @property
    def sequence_fields(self) -> tuple[str, ...]:
        """The columns that order records of one key before their sequence number."""
        return self._names("sequence.field")

    @property
    def sequence_descending(self) -> bool:
        """Whether the record with the least `sequence_fields` is the newest."""
        return self.options.get("sequence.field.sort-order", "ascending").strip().lower() == "descending"

    @property
    def rowkind_field(self) -> str | None:
        """The column that holds the kind of each record."""
        return self.options.get("rowkind.field")

    @property
    def changelog_producer(self) -> ChangelogProducer:
        """How changelog files are produced."""
        return self._choice("changelog-producer", ChangelogProducer.NONE)

    @property
    def changelog_row_deduplicate(self) -> bool:
        """Whether a changelog by compaction leaves out rows that were written again with equal values."""
        return self._bool("changelog-producer.row-deduplicate", False)

    @property
    def changelog_ignored_fields(self) -> tuple[str, ...]:
        """The columns that are not compared for that."""
        return self._names("changelog-producer.row-deduplicate-ignore-fields")

    @property
    def deletion_vectors(self) -> bool:
        """Whether deleted rows are marked in vectors."""
        return self._bool("deletion-vectors.enabled", False)

    @property
    def deletion_vectors_64(self) -> bool:
        """Whether new vectors have 64 bits."""
        return self._bool("deletion-vectors.bitmap64", False)

    @property
    def deletion_vectors_merge_on_read(self) -> bool:
        """Whether level 0 is merged when reading although there are deletion vectors."""
        return self._bool(MERGE_ON_READ, False)

    @property
    def row_tracking(self) -> bool:
        """Whether rows have ids."""
        return self._bool("row-tracking.enabled", False)

    @property
    def data_evolution(self) -> bool:
        """Whether files may have some columns of the rows of other files."""
        return self._bool("data-evolution.enabled", False)

    @property
    def blob_as_descriptor(self) -> bool:
        """Whether values of BLOB columns are read as descriptors, and not as bytes."""
        return self._bool("blob-as-descriptor", True)

    @property
    def batch_reads_skip_level_0(self) -> bool:
        """Whether files of level 0 are invisible until they are compacted (primary-key tables)."""
        by_vectors = self.deletion_vectors and not self.deletion_vectors_merge_on_read
        return by_vectors or self.merge_engine is MergeEngine.FIRST_ROW

    @property
    def compacts_by_lookup(self) -> bool:
        """Whether compaction merges records at higher levels into those that it writes to a lower one."""
        return (
            self.merge_engine is MergeEngine.FIRST_ROW
            or self.changelog_producer is ChangelogProducer.LOOKUP
            or self.deletion_vectors
            or self._bool("force-lookup", False)
        )

    @property
    def lookup_cache_bytes(self) -> int:
        """How much of what look-ups have decoded is kept in memory."""
        return self._size("lookup.cache-max-memory-size", 256 * _MEBIBYTE)

    @property
    def file_index_read(self) -> bool:
        """Whether file indexes are used."""
        return self._bool("file-index.read.enabled", True)

    # ---- files ----

    @property
    def levels(self) -> frozenset[int]:
        """The levels whose files have a format, compression or statistics of their own."""
        return frozenset(
            level for name in _PER_LEVEL for level in parse_levels(name, self.options.get(f"{name}.per.level", ""))
        )

    def of_level(self, level: int) -> CoreOptions:
        """The options for the files of a level of a primary-key table."""
        own = {name: parse_levels(name, self.options.get(f"{name}.per.level", "")).get(level) for name in _PER_LEVEL}
        return CoreOptions({**self.options, **{name: text for name, text in own.items() if text is not None}})

    @property
    def file_format(self) -> FileFormat:
        """The format of data files."""
        return self._choice("file.format", FileFormat.PARQUET)

    @property
    def file_compression(self) -> str:
        """Their compression."""
        return self.options.get("file.compression", "zstd").strip().lower()

    @property
    def file_compression_zstd_level(self) -> int:
        """The level of zstd."""
        return self._int("file.compression.zstd-level", 1)

    @property
    def changelog_file_format(self) -> FileFormat:
        """The format of changelog files."""
        return self._choice("changelog-file.format", self.file_format)

    @property
    def changelog_file_compression(self) -> str:
        """Their compression."""
        return self.options.get("changelog-file.compression", self.file_compression).strip().lower()

    @property
    def changelog_file_stats_mode(self) -> str:
        """Which statistics of columns they have; see `stats_mode`."""
        return self.options.get("changelog-file.stats-mode", self.stats_mode).strip().lower()

    @property
    def data_file_prefix(self) -> str:
        """Prefix of the names of data files."""
        return self.options.get("data-file.prefix", "data-")

    @property
    def changelog_file_prefix(self) -> str:
        """Prefix of the names of changelog files."""
        return self.options.get("changelog-file.prefix", "changelog-")

    @property
    def suffix_includes_compression(self) -> bool:
        """Whether names of data files include their compression."""
        return self._bool("file.suffix.include.compression", False)

    @property
    def thin_mode(self) -> bool:
        """Whether primary-key files omit the columns `_KEY_…`."""
        return self._bool("data-file.thin-mode", False)

    @property
    def stats_mode(self) -> str:
        """Which statistics of columns files have: `none`, `counts`, `full` or `truncate(n)`."""
        return self.options.get("metadata.stats-mode", "truncate(16)").strip().lower()

    @property
    def stats_dense_store(self) -> bool:
        """Whether columns without statistics are omitted from the statistics."""
        return self._bool("metadata.stats-dense-store", True)

    @property
    def target_file_size(self) -> int | None:
        """Target size of data files in bytes; None for the default, which differs by kind of table."""
        return self._size("target-file-size", 0) or None

    @property
    def merge_memory_bytes(self) -> int:
        """Memory that a compaction or a row-level change reads and merges a bucket with (`sort-spill-buffer-size`)."""
        return self._size("sort-spill-buffer-size", 64 * _MEBIBYTE)

    @property
    def write_buffer_bytes(self) -> int:
        """Memory that a writer buffers rows in (`write-buffer-size`)."""
        return self._size("write-buffer-size", 256 * _MEBIBYTE)

    @property
    def split_target_size(self) -> int:
        """Target number of bytes that a task of a scan reads."""
        return self._size("source.split.target-size", 128 * _MEBIBYTE)

    @property
    def split_open_file_cost(self) -> int:
        """Number of bytes that opening a file counts as."""
        return self._size("source.split.open-file-cost", 4 * _MEBIBYTE)

    @property
    def file_index_in_manifest_threshold(self) -> int:
        """Maximum size in bytes of a file index that is embedded in the manifest."""
        return self._size("file-index.in-manifest-threshold", 500)

    @property
    def deletion_vector_file_target_size(self) -> int:
        """Target size in bytes of index files of deletion vectors."""
        return self._size("deletion-vector.index-file.target-size", 2 * _MEBIBYTE)

    @property
    def btree_block_bytes(self) -> int:
        """Size in bytes that makes the blocks of a global index end."""
        return self._size("btree-index.block-size", 64 << 10)

    @property
    def btree_records_per_range(self) -> int:
        """Rows for each file of a global index; the last one of a range has a fifth more."""
        return max(self._int("btree-index.records-per-range", 1_000_000), 1)

    # ---- metadata ----

    @property
    def manifest_format(self) -> str:
        """Format of manifests, their lists and index manifests."""
        return self.options.get("manifest.format", "avro").strip().lower()

    @property
    def manifest_compression(self) -> str:
        """Compression of manifests."""
        return self.options.get("manifest.compression", "zstd").strip().lower()

    @property
    def manifest_target_file_size(self) -> int:
        """Target size of manifests in bytes."""
        return self._size("manifest.target-file-size", 8 * _MEBIBYTE)

    @property
    def manifest_full_compaction_threshold(self) -> int:
        """Number of bytes of changes from which on all manifests are rewritten."""
        return self._size("manifest.full-compaction-threshold-size", 16 * _MEBIBYTE)

    @property
    def manifest_merge_min_count(self) -> int:
        """Number of small manifests from which on they are merged."""
        return self._int("manifest.merge-min-count", 30)

    @property
    def commit_max_retries(self) -> int:
        """Maximum number of attempts to commit after the first."""
        return self._int("commit.max-retries", 10)

    @property
    def commit_min_retry_wait_ms(self) -> int:
        """The wait before the first retry."""
        return self._duration("commit.min-retry-wait", 10)

    @property
    def commit_max_retry_wait_ms(self) -> int:
        """The longest wait before a retry."""
        return self._duration("commit.max-retry-wait", 10_000)

    @property
    def commit_timeout_ms(self) -> int | None:
        """Time limit of all attempts; None for no limit."""
        return self._duration("commit.timeout", 0) or None

    @property
    def snapshot_num_retained_min(self) -> int:
        """Number of snapshots that are kept at any age."""
        return self._int("snapshot.num-retained.min", 10)

    @property
    def snapshot_num_retained_max(self) -> int:
        """Maximum number of snapshots that are kept."""
        return self._int("snapshot.num-retained.max", 2**31 - 1)

    @property
    def snapshot_time_retained_ms(self) -> int:
        """The age up to which snapshots are kept."""
        return self._duration("snapshot.time-retained", 3_600_000)

    @property
    def changelog_num_retained_min(self) -> int:
        """Number of changelogs that are kept at any age."""
        return self._int("changelog.num-retained.min", self.snapshot_num_retained_min)

    @property
    def changelog_num_retained_max(self) -> int:
        """Maximum number of changelogs that are kept."""
        return self._int("changelog.num-retained.max", self.snapshot_num_retained_max)

    @property
    def changelog_time_retained_ms(self) -> int:
        """The age up to which changelogs are kept."""
        return self._duration("changelog.time-retained", self.snapshot_time_retained_ms)

    @property
    def changelogs_outlive_snapshots(self) -> bool:
        """Whether changelogs expire by rules of their own."""
        return (
            self.changelog_num_retained_max > self.snapshot_num_retained_max
            or self.changelog_num_retained_min > self.snapshot_num_retained_min
            or self.changelog_time_retained_ms > self.snapshot_time_retained_ms
        )

    @property
    def consumers_keep_changelogs_only(self) -> bool:
        """Whether snapshots expire that consumers have yet to read, as their changelogs stay."""
        return self._bool("consumer.changelog-only", False) and self.changelogs_outlive_snapshots

    # ---- compaction ----

    @property
    def write_only(self) -> bool:
        """Whether writers leave compaction to others."""
        return self._bool("write-only", False)

    @property
    def compacts_in_background(self) -> bool:
        """Whether writers go on while buckets with too many sorted runs are compacted; an option of ours."""
        return self._bool(BACKGROUND_PROPERTY, False)

    @property
    def compaction_trigger(self) -> int:
        """Number of sorted runs of a bucket from which on it is compacted."""
        return self._int("num-sorted-run.compaction-trigger", 5)

    @property
    def commit_force_compact(self) -> bool:
        """Whether writers wait for every compaction that is due."""
        return self._bool("commit.force-compact", False)

    @property
    def stop_trigger(self) -> int:
        """Number of sorted runs of a bucket from which on writers wait until it is compacted."""
        return max(self._int("num-sorted-run.stop-trigger", self.compaction_trigger + 3), self.compaction_trigger)

    @property
    def num_levels(self) -> int:
        """Number of levels of the LSM tree, level 0 included."""
        return self._int("num-levels", self.compaction_trigger + 1)

    @property
    def max_size_amplification_percent(self) -> int:
        """Limit for the size of newer runs, in percent of the oldest run."""
        return self._int("compaction.max-size-amplification-percent", 200)

    @property
    def size_ratio(self) -> int:
        """Percentage by which a run may be larger than those before it to be compacted with them."""
        return self._int("compaction.size-ratio", 1)

    @property
    def full_compaction_delta_commits(self) -> int | None:
        """Number of commits after which everything is compacted to the highest level; None if not set."""
        return self._int("full-compaction.delta-commits", 0) or None

    @property
    def lookup_compact(self) -> LookupCompact:
        """When compaction by look-up takes files of level 0 up."""
        return self._choice("lookup-compact", LookupCompact.RADICAL)

    @property
    def lookup_compact_max_interval(self) -> int:
        """Number of files of level 0 from which on a gentle compaction takes them up, whatever their size."""
        return self._int("lookup-compact.max-interval", 2 * self.compaction_trigger)

    @property
    def compaction_min_file_num(self) -> int:
        """Number of small files of an append table from which on they are compacted."""
        return self._int("compaction.min.file-num", 5)


_PER_LEVEL: Final = ("file.format", "file.compression", "metadata.stats-mode")
_IGNORE_DELETE: Final = (
    "ignore-delete",
    "first-row.ignore-delete",
    "deduplicate.ignore-delete",
    "partial-update.ignore-delete",
)
