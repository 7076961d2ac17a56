// Paimon's Java API behind a few methods of text, compiled inside Spark's JVM by Janino: its table class is not public,
// and py4j does not see the default methods of such. Janino knows neither lambdas nor type arguments.
import java.math.BigDecimal;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.BiConsumer;
import java.util.function.Consumer;
import org.apache.paimon.catalog.Catalog;
import org.apache.paimon.catalog.CatalogContext;
import org.apache.paimon.catalog.CatalogFactory;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.append.AppendCompactTask;
import org.apache.paimon.append.dataevolution.DataEvolutionCompactCoordinator;
import org.apache.paimon.append.dataevolution.DataEvolutionCompactTask;
import org.apache.paimon.crosspartition.GlobalIndexAssigner;
import org.apache.paimon.crosspartition.IndexBootstrap;
import org.apache.paimon.data.BinaryRow;
import org.apache.paimon.data.BinaryString;
import org.apache.paimon.data.Blob;
import org.apache.paimon.data.BlobData;
import org.apache.paimon.data.Decimal;
import org.apache.paimon.data.GenericArray;
import org.apache.paimon.data.GenericMap;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.data.InternalArray;
import org.apache.paimon.data.InternalMap;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.data.Timestamp;
import org.apache.paimon.data.variant.GenericVariant;
import org.apache.paimon.data.variant.Variant;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.fs.local.LocalFileIO;
import org.apache.paimon.globalindex.btree.BTreeGlobalIndexBuilder;
import org.apache.paimon.index.HashBucketAssigner;
import org.apache.paimon.manifest.ManifestEntry;
import org.apache.paimon.operation.BaseAppendFileStoreWrite;
import org.apache.paimon.options.ExpireConfig;
import org.apache.paimon.options.Options;
import org.apache.paimon.predicate.PredicateBuilder;
import org.apache.paimon.reader.RecordReader;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.node.ArrayNode;
import org.apache.paimon.schema.Schema;
import org.apache.paimon.schema.SchemaChange;
import org.apache.paimon.table.BucketMode;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.FileStoreTableFactory;
import org.apache.paimon.table.SpecialFields;
import org.apache.paimon.table.Table;
import org.apache.paimon.table.sink.RowKeyExtractor;
import org.apache.paimon.table.sink.TableCommitImpl;
import org.apache.paimon.table.sink.TableWriteImpl;
import org.apache.paimon.table.source.DataSplit;
import org.apache.paimon.table.source.ReadBuilder;
import org.apache.paimon.table.source.Split;
import org.apache.paimon.table.source.StreamDataTableScan;
import org.apache.paimon.table.source.TableRead;
import org.apache.paimon.table.system.SystemTableLoader;
import org.apache.paimon.types.ArrayType;
import org.apache.paimon.types.DataType;
import org.apache.paimon.types.DecimalType;
import org.apache.paimon.types.MapType;
import org.apache.paimon.types.MultisetType;
import org.apache.paimon.types.DataTypes;
import org.apache.paimon.types.RowKind;
import org.apache.paimon.types.RowType;
import org.apache.paimon.utils.Pair;

public class JavaPaimon {
    private final ObjectMapper json = new ObjectMapper();
    private final String folder;

    public JavaPaimon(String folder) {
        this.folder = folder;
    }

    private Map options(String text) throws Exception {
        Map found = new HashMap();
        Iterator entries = json.readTree(text).fields();
        while (entries.hasNext()) {
            Map.Entry entry = (Map.Entry) entries.next();
            found.put(entry.getKey(), ((JsonNode) entry.getValue()).asText());
        }
        return found;
    }

    private FileStoreTable table(String path, String branch, String options) throws Exception {
        Options wanted = new Options();
        wanted.set("path", path);
        if (branch != null) wanted.set("branch", branch);
        FileStoreTable table = FileStoreTableFactory.create(LocalFileIO.create(), wanted);
        Map dynamic = options(options);
        return dynamic.isEmpty() ? table : (FileStoreTable) table.copy(dynamic);
    }

    /** The rows, one JSON list a line, each with its kind first; those alone that have the values of an object. */
    public String read(String path, String branch, String options, String equal) throws Exception {
        FileStoreTable table = table(path, branch, options);
        ReadBuilder builder = table.newReadBuilder();
        Iterator wanted = json.readTree(equal).fields();
        while (wanted.hasNext()) {
            Map.Entry entry = (Map.Entry) wanted.next();
            int index = table.rowType().getFieldIndex((String) entry.getKey());
            Object literal = in((JsonNode) entry.getValue(), table.rowType().getTypeAt(index));
            PredicateBuilder made = new PredicateBuilder(table.rowType());
            builder.withFilter(literal == null ? made.isNull(index) : made.equal(index, literal));
        }
        StringBuilder lines = new StringBuilder();
        rows(builder.newRead().withIOManager(IOManager.create(folder)).executeFilter(), builder.newScan().plan().splits(), table.rowType(), lines, null);
        return lines.toString();
    }

    /** A system table: the names of its columns, then its rows as `read` gives them. */
    public String system(String path, String name) throws Exception {
        Table table = SystemTableLoader.load(name, table(path, null, "{}"));
        ReadBuilder builder = table.newReadBuilder();
        StringBuilder lines = new StringBuilder();
        lines.append(json.writeValueAsString(table.rowType().getFieldNames())).append('\n');
        rows(builder.newRead(), builder.newScan().plan().splits(), table.rowType(), lines, null);
        return lines.toString();
    }

    /** What happened from a snapshot on, one JSON list a line: snapshot id, kind, values. */
    public String changelog(String path, long from) throws Exception {
        FileStoreTable table = table(path, null, "{\"scan.snapshot-id\": \"" + from + "\"}");
        long last = table.snapshotManager().latestSnapshotId().longValue();
        StreamDataTableScan scan = table.newStreamScan();
        scan.restore(Long.valueOf(from));
        TableRead read = table.newReadBuilder().newRead().withIOManager(IOManager.create(folder));
        StringBuilder lines = new StringBuilder();
        for (int idle = 0; idle < 3; ) {
            Long before = (Long) scan.checkpoint();
            if (before != null && before.longValue() > last) break;
            List splits = scan.plan().splits();
            if (splits.isEmpty()) idle++;
            rows(read, splits, table.rowType(), lines, Long.valueOf(((Long) scan.checkpoint()).longValue() - 1));
        }
        return lines.toString();
    }

    private void rows(TableRead read, List splits, RowType type, StringBuilder lines, Long snapshot) throws Exception {
        for (int i = 0; i < splits.size(); i++) {
            RecordReader reader = read.createReader((Split) splits.get(i));
            RecordReader.RecordIterator batch;
            while ((batch = reader.readBatch()) != null) {
                InternalRow row;
                while ((row = (InternalRow) batch.next()) != null) {
                    ArrayNode values = out(row, type);
                    values.insert(0, row.getRowKind().shortString());
                    if (snapshot != null) values.insert(0, snapshot);
                    lines.append(json.writeValueAsString(values)).append('\n');
                }
                batch.releaseBatch();
            }
            reader.close();
        }
    }

    /** Commit rows: a JSON list of [kind, [values]]. compaction: null, "some" or "full". */
    public void write(String path, String branch, String user, long identifier, String rows, String compaction, String overwrite) throws Exception {
        write(table(path, branch, "{}"), user, identifier, rows, compaction, overwrite);
    }

    private void write(FileStoreTable table, String user, long identifier, String rows, String compaction, String overwrite) throws Exception {
        RowType type = table.rowType();
        final TableWriteImpl write = table.newWrite(user);
        write.withIOManager(IOManager.create(folder));
        if (overwrite != null) write.withIgnorePreviousFiles(true);
        HashBucketAssigner assigner = null;
        RowKeyExtractor extractor = null;
        if (table.bucketMode() == BucketMode.HASH_DYNAMIC) {
            assigner = new HashBucketAssigner(table.snapshotManager(), user, table.store().newIndexFileHandler(), 1, 1, 0, table.coreOptions().dynamicBucketTargetRowNum(), -1);
            extractor = table.createRowKeyExtractor();
        }
        GlobalIndexAssigner keys = table.bucketMode() == BucketMode.KEY_DYNAMIC ? keys(table, write) : null;
        Iterator wanted = json.readTree(rows).elements();
        while (wanted.hasNext()) {
            JsonNode one = (JsonNode) wanted.next();
            GenericRow row = row(at(one, 1), type.getFieldTypes());
            row.setRowKind(RowKind.fromShortString(at(one, 0).asText()));
            if (keys != null) {
                keys.processInput(row);
            } else if (assigner != null) {
                extractor.setRecord(row);
                write.write(row, assigner.assign(extractor.partition(), extractor.trimmedPrimaryKey().hashCode()));
            } else {
                write.write(row);
            }
        }
        if (keys != null) keys.close();
        if (compaction != null) compact(table, write, compaction.equals("full"));
        List messages = write.prepareCommit(true, identifier);
        TableCommitImpl commit = table.newCommit(user);
        if (overwrite != null) commit.withOverwrite(options(overwrite));
        commit.commit(identifier, messages);
        commit.close();
        write.close();
    }

    /** Where the keys of a table are that move between partitions; rows that it processes go to a writer. */
    private GlobalIndexAssigner keys(FileStoreTable table, final TableWriteImpl write) throws Exception {
        final GlobalIndexAssigner keys = new GlobalIndexAssigner(table);
        keys.open(1L << 24, IOManager.create(folder), 1, 0, new BiConsumer() {
            public void accept(Object row, Object bucket) {
                try {
                    write.write((InternalRow) row, ((Integer) bucket).intValue());
                } catch (Exception error) {
                    throw new RuntimeException(error);
                }
            }
        });
        new IndexBootstrap(table).bootstrap(1, 0, new Consumer() {
            public void accept(Object key) {
                try {
                    keys.bootstrapKey((InternalRow) key);
                } catch (Exception error) {
                    throw new RuntimeException(error);
                }
            }
        });
        keys.endBoostrap(false);
        return keys;
    }

    private void compact(FileStoreTable table, TableWriteImpl write, boolean full) throws Exception {
        Set seen = new HashSet();
        List entries = table.store().newScan().plan().files();
        for (int i = 0; i < entries.size(); i++) {
            ManifestEntry entry = (ManifestEntry) entries.get(i);
            if (seen.add(Base64.getEncoder().encodeToString(entry.partition().toBytes()) + entry.bucket()) && entry.bucket() >= 0)
                write.compact(entry.partition(), entry.bucket(), full);
        }
    }

    /** What a catalog answers to commands, a JSON list of lists: what to do, and what with. One JSON value a line. */
    public String catalog(String options, String commands) throws Exception {
        Catalog catalog = CatalogFactory.createCatalog(CatalogContext.create(new Options(options(options))));
        StringBuilder lines = new StringBuilder();
        try {
            Iterator wanted = json.readTree(commands).elements();
            while (wanted.hasNext()) {
                JsonNode one = (JsonNode) wanted.next();
                String verb = at(one, 0).asText();
                String database = one.size() > 1 ? at(one, 1).asText() : null;
                Identifier name = one.size() > 2 ? Identifier.create(database, at(one, 2).asText()) : null;
                Object found = null;
                if (verb.equals("databases")) found = catalog.listDatabases();
                else if (verb.equals("tables")) found = catalog.listTables(database);
                else if (verb.equals("create database")) catalog.createDatabase(database, false);
                else if (verb.equals("create")) catalog.createTable(name, Schema.newBuilder().column("id", DataTypes.BIGINT().notNull()).column("name", DataTypes.STRING()).primaryKey(new String[] {"id"}).option("bucket", "2").build(), false);
                else if (verb.equals("rename")) catalog.renameTable(name, Identifier.create(at(one, 3).asText(), at(one, 4).asText()), false);
                else if (verb.equals("drop")) catalog.dropTable(name, false);
                else if (verb.equals("set")) catalog.alterTable(name, java.util.Collections.singletonList(SchemaChange.setOption(at(one, 3).asText(), at(one, 4).asText())), false);
                else if (verb.equals("write")) write((FileStoreTable) catalog.getTable(name), "java", System.nanoTime(), at(one, 3).toString(), null, null);
                else if (verb.equals("read")) {
                    FileStoreTable table = (FileStoreTable) catalog.getTable(name);
                    ReadBuilder builder = table.newReadBuilder();
                    StringBuilder rows = new StringBuilder();
                    rows(builder.newRead().withIOManager(IOManager.create(folder)), builder.newScan().plan().splits(), table.rowType(), rows, null);
                    found = rows.toString();
                } else throw new IllegalArgumentException(verb);
                lines.append(json.writeValueAsString(found)).append('\n');
            }
        } finally {
            catalog.close();
        }
        return lines.toString();
    }

    /** Join all files of each partition of an append table, as the jobs of Flink and Spark do. */
    public void join(String path) throws Exception {
        FileStoreTable table = table(path, null, "{}");
        Map files = new LinkedHashMap();
        List entries = table.store().newScan().plan().files();
        for (int i = 0; i < entries.size(); i++) {
            ManifestEntry entry = (ManifestEntry) entries.get(i);
            if (!files.containsKey(entry.partition())) files.put(entry.partition(), new ArrayList());
            ((List) files.get(entry.partition())).add(entry.file());
        }
        BaseAppendFileStoreWrite write = (BaseAppendFileStoreWrite) table.store().newWrite("joiner");
        if (table.coreOptions().rowTrackingEnabled()) write.withWriteType(SpecialFields.rowTypeWithRowTracking(table.rowType()));
        List messages = new ArrayList();
        Iterator partitions = files.entrySet().iterator();
        while (partitions.hasNext()) {
            Map.Entry entry = (Map.Entry) partitions.next();
            if (((List) entry.getValue()).size() > 1) messages.add(new AppendCompactTask((BinaryRow) entry.getKey(), (List) entry.getValue()).doCompact(table, write));
        }
        TableCommitImpl commit = table.newCommit("joiner");
        commit.commit(9223372036854775807L, messages);
        commit.close();
        write.close();
    }

    /** Compact a table whose files have columns of the same rows. */
    public void stitch(String path) throws Exception {
        FileStoreTable table = table(path, null, "{}");
        List tasks = new DataEvolutionCompactCoordinator(table, false, false).plan();
        List messages = new ArrayList();
        for (int i = 0; i < tasks.size(); i++) messages.add(((DataEvolutionCompactTask) tasks.get(i)).doCompact(table, "stitcher"));
        TableCommitImpl commit = table.newCommit("stitcher");
        commit.commit(System.nanoTime(), messages);
        commit.close();
    }

    /** Build the b-tree global index of a column for the rows that have none. */
    public void index(String path, String column) throws Exception {
        FileStoreTable table = table(path, null, "{}");
        BTreeGlobalIndexBuilder builder = new BTreeGlobalIndexBuilder(table).withIndexField(column);
        java.util.Optional found = builder.incrementalScan();
        if (!found.isPresent()) return;
        List splits = BTreeGlobalIndexBuilder.splitByContiguousRowRange((List) ((Pair) found.get()).getValue());
        List messages = new ArrayList();
        for (int i = 0; i < splits.size(); i++) messages.addAll(builder.build((DataSplit) splits.get(i), IOManager.create(folder)));
        TableCommitImpl commit = table.newCommit("indexer");
        commit.commit(System.nanoTime(), messages);
        commit.close();
    }

    /** The statistics of the newest snapshot as JSON; null if there are none. */
    public String statistics(String path) throws Exception {
        FileStoreTable table = table(path, null, "{}");
        return table.statistics().isPresent() ? ((org.apache.paimon.stats.Statistics) table.statistics().get()).toJson() : null;
    }

    public int expire(String path, int retained) throws Exception {
        ExpireConfig config = ExpireConfig.builder().snapshotRetainMax(retained).snapshotRetainMin(retained).snapshotTimeRetain(Duration.ofMillis(1)).build();
        return table(path, null, "{}").newExpireSnapshots().config(config).expire();
    }

    /** Expire snapshots, and changelogs that outlive them, by the table's options. */
    public void expireByOptions(String path) throws Exception {
        FileStoreTable table = table(path, null, "{}");
        ExpireConfig config = table.coreOptions().expireConfig();
        table.newExpireSnapshots().config(config).expire();
        if (table.coreOptions().changelogLifecycleDecoupled()) table.newExpireChangelog().config(config).expire();
    }

    private static JsonNode at(JsonNode list, int index) {
        return (JsonNode) list.get(index); // Janino finds the inherited method
    }

    private Object in(JsonNode value, DataType type) {
        if (value == null || value.isNull()) return null;
        String root = type.getTypeRoot().name();
        if (root.equals("CHAR") || root.equals("VARCHAR")) return BinaryString.fromString(value.asText());
        if (root.equals("BOOLEAN")) return Boolean.valueOf(value.asBoolean());
        if (root.equals("BINARY") || root.equals("VARBINARY")) return Base64.getDecoder().decode(value.asText());
        if (root.equals("DECIMAL")) return Decimal.fromBigDecimal(new BigDecimal(value.asText()), ((DecimalType) type).getPrecision(), ((DecimalType) type).getScale());
        if (root.equals("TINYINT")) return Byte.valueOf((byte) value.asInt());
        if (root.equals("SMALLINT")) return Short.valueOf((short) value.asInt());
        if (root.equals("BIGINT")) return Long.valueOf(value.asLong());
        if (root.equals("FLOAT")) return Float.valueOf(value.asText());
        if (root.equals("DOUBLE")) return Double.valueOf(value.asText());
        if (root.startsWith("TIMESTAMP")) return Timestamp.fromEpochMillis(at(value, 0).asLong(), at(value, 1).asInt());
        if (root.equals("ARRAY")) {
            Object[] elements = new Object[value.size()];
            for (int i = 0; i < elements.length; i++) elements[i] = in(at(value, i), ((ArrayType) type).getElementType());
            return new GenericArray(elements);
        }
        if (root.equals("MAP") || root.equals("MULTISET")) {
            Map entries = new LinkedHashMap();
            for (int i = 0; i < value.size(); i++) entries.put(in(at(at(value, i), 0), keys(type)), in(at(at(value, i), 1), items(type)));
            return new GenericMap(entries);
        }
        if (root.equals("ROW")) return row(value, ((RowType) type).getFieldTypes());
        if (root.equals("VARIANT")) return GenericVariant.fromJson(value.asText());
        if (root.equals("BLOB")) return new BlobData(Base64.getDecoder().decode(value.asText()));
        return Integer.valueOf(value.asInt());
    }

    private GenericRow row(JsonNode values, List types) {
        GenericRow row = new GenericRow(types.size());
        for (int i = 0; i < types.size(); i++) row.setField(i, in(at(values, i), (DataType) types.get(i)));
        return row;
    }

    private static DataType keys(DataType type) {
        return type instanceof MapType ? ((MapType) type).getKeyType() : ((MultisetType) type).getElementType();
    }

    private static DataType items(DataType type) {
        return type instanceof MapType ? ((MapType) type).getValueType() : DataTypes.INT();
    }

    private ArrayNode out(InternalRow row, RowType type) {
        ArrayNode values = json.createArrayNode();
        for (int i = 0; i < type.getFieldCount(); i++)
            values.add(out(InternalRow.createFieldGetter(type.getTypeAt(i), i).getFieldOrNull(row), type.getTypeAt(i)));
        return values;
    }

    private JsonNode out(Object value, DataType type) {
        if (value == null) return json.getNodeFactory().nullNode();
        String root = type.getTypeRoot().name();
        if (root.equals("BINARY") || root.equals("VARBINARY")) return json.getNodeFactory().textNode(Base64.getEncoder().encodeToString((byte[]) value));
        if (root.equals("BOOLEAN")) return json.getNodeFactory().booleanNode(((Boolean) value).booleanValue());
        if (root.equals("DECIMAL")) return json.getNodeFactory().textNode(((Decimal) value).toBigDecimal().toPlainString());
        if (root.equals("FLOAT") || root.equals("DOUBLE") || root.equals("CHAR") || root.equals("VARCHAR")) return json.getNodeFactory().textNode(value.toString());
        if (root.startsWith("TIMESTAMP")) {
            ArrayNode parts = json.createArrayNode();
            return parts.add(((Timestamp) value).getMillisecond()).add(((Timestamp) value).getNanoOfMillisecond());
        }
        if (root.equals("ARRAY")) return list((InternalArray) value, ((ArrayType) type).getElementType());
        if (root.equals("MAP") || root.equals("MULTISET")) {
            ArrayNode keys = list(((InternalMap) value).keyArray(), keys(type)), items = list(((InternalMap) value).valueArray(), items(type));
            ArrayNode entries = json.createArrayNode();
            for (int i = 0; i < keys.size(); i++) entries.add(json.createArrayNode().add(at(keys, i)).add(at(items, i)));
            return entries;
        }
        if (root.equals("ROW")) return out((InternalRow) value, (RowType) type);
        if (root.equals("VARIANT")) return json.getNodeFactory().textNode(((Variant) value).toJson());
        if (root.equals("BLOB")) return json.getNodeFactory().textNode(Base64.getEncoder().encodeToString(((Blob) value).toData()));
        return json.getNodeFactory().numberNode(((Number) value).longValue());
    }

    private ArrayNode list(InternalArray array, DataType type) {
        ArrayNode values = json.createArrayNode();
        InternalArray.ElementGetter getter = InternalArray.createElementGetter(type);
        for (int i = 0; i < array.size(); i++) values.add(out(getter.getElementOrNull(array, i), type));
        return values;
    }
}
