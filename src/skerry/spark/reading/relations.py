"""Statistics in Spark plans, where its cost-based optimizer looks for them.

Spark keeps statistics of V1 relations in their `CatalogTable`. One is created here for each relation, in no
catalog. All numbers are passed to the JVM as one JSON text: calls per column take longer than planning
does. Objects that are the same for all relations are looked up in the JVM once.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from skerry.spark.reading.plan_statistics import PlanStatistics

__all__ = ["RELATION", "is_relation", "relation_table", "with_statistics"]

_FINAL = 16  # Java's `Modifier.FINAL`
RELATION = "LogicalRelation"
"""The kind of node that reads files."""


def with_statistics(frame: DataFrame, statistics: PlanStatistics, name: str) -> DataFrame:
    """Add statistics to the plan of a frame.

    Args:
        frame: A frame of a classic session: the files of one Parquet relation, or anything whose plan Spark shall not
            inspect, such as rows from Python workers.
        statistics: The statistics of its rows.
        name: The table's name, for readers of plans.
    """
    spark = frame.sparkSession
    classes = _classes(spark._jvm)
    query = frame._jdf.queryExecution()
    plan = query.analyzed()
    output = plan.output()
    found = classes.mapper.readValue(statistics.to_json(), classes.statistics)
    if is_relation(plan):
        relation = plan.relation()
        table = classes.some(classes.table(name, relation.schema(), found))
        plan = classes.logical_relation(relation, output, table, False, classes.none)
    else:
        plan = classes.logical_rdd(
            output,
            query.toRdd(),
            query.executedPlan().outputPartitioning(),
            classes.no_order,
            False,  # no stream
            classes.none,
            spark._jsparkSession,
            classes.some(found.toPlanStats(output, True)),
            classes.none,
            *classes.rdd_flags,
        )
    return DataFrame(classes.dataset.ofRows(spark._jsparkSession, plan), spark)


def is_relation(plan: Any) -> bool:
    """Whether a node of a plan is a relation of files."""
    return bool(plan.nodeName() == RELATION)


def relation_table(relation: Any) -> str | None:
    """The name of the table given to a relation; None if it has none."""
    table = relation.catalogTable()
    return str(table.get().identifier().unquotedString()) if table.isDefined() else None


@dataclass(frozen=True, slots=True, eq=False)
class _Classes:
    """Classes and objects of a JVM; each name that py4j looks up costs several calls."""

    mapper: Any
    statistics: Any
    logical_relation: Any
    logical_rdd: Any
    rdd_flags: tuple[bool, ...]
    dataset: Any
    catalog_table: Any
    identifier: Any
    some: Any
    none: Any
    no_order: Any
    parameters: tuple[str, ...]
    defaults: Mapping[str, Any]

    def table(self, name: str, schema: Any, statistics: Any) -> Any:
        """The description of a table with statistics; everything else has Spark's defaults."""
        namespace, _, table = name.rpartition(".")
        given = {
            **self.defaults,
            "identifier": self.identifier(table, self.some(namespace or None)),
            "schema": schema,
            "stats": self.some(statistics),
        }
        return self.catalog_table(*(given[parameter] for parameter in self.parameters))


@functools.lru_cache(maxsize=1)
def _classes(jvm: Any) -> _Classes:
    sql = jvm.org.apache.spark.sql
    catalog = sql.catalyst.catalog
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    option = jvm.scala.Option
    table_class = jvm.java.lang.Class.forName("org.apache.spark.sql.catalyst.catalog.CatalogTable", True, loader)
    # they differ from version to version of Spark
    parameters = tuple(field.getName() for field in table_class.getDeclaredFields() if field.getModifiers() & _FINAL)
    given = {
        "tableType": catalog.CatalogTableType.EXTERNAL(),
        "storage": catalog.CatalogStorageFormat.empty(),
        "provider": option.apply("parquet"),
    }
    defaults = {
        parameter: getattr(catalog.CatalogTable, f"apply$default${number}")()
        for number, parameter in enumerate(parameters, 1)
        if parameter not in ("identifier", "schema", *given)
    }
    rdd_class = jvm.java.lang.Class.forName("org.apache.spark.sql.execution.LogicalRDD", True, loader)
    is_told_of_checkpoints = rdd_class.getConstructors()[0].getParameterCount() > 9  # in later versions of Spark
    return _Classes(
        mapper=_mapper(jvm),
        statistics=jvm.java.lang.Class.forName("org.apache.spark.sql.catalyst.catalog.CatalogStatistics", True, loader),
        logical_relation=sql.execution.datasources.LogicalRelation,
        logical_rdd=sql.execution.LogicalRDD,
        rdd_flags=(False,) if is_told_of_checkpoints else (),
        dataset=sql.classic.Dataset,
        catalog_table=catalog.CatalogTable,
        identifier=sql.catalyst.TableIdentifier,
        some=option.apply,
        none=option.empty(),
        no_order=jvm.PythonUtils.toSeq([]),
        parameters=parameters,
        defaults=defaults | given,
    )


def _mapper(jvm: Any) -> Any:
    """A JSON reader that knows Scala's classes. Integers become longs, as which Scala takes those of an option."""
    jackson = jvm.com.fasterxml.jackson
    mapper = jackson.databind.ObjectMapper()
    mapper.registerModule(jackson.module.scala.DefaultScalaModule())
    return mapper.configure(jackson.databind.DeserializationFeature.USE_LONG_FOR_INTS, True)
