"""Expressions that Spark's SQL cannot express, built in the JVM of a classic session.

Calling a Java method from generated code costs only the method itself; a Python function would move every row to
another process and back.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.classic.column import Column as ClassicColumn

__all__ = ["Jvm", "is_classic"]


def is_classic(spark: SparkSession) -> bool:
    """Whether the session runs on a JVM of this process; that of a Spark Connect session is not accessible."""
    return hasattr(spark, "_jsparkSession")


class Jvm:
    """Builds columns from Catalyst expressions.

    Args:
        spark: A classic session.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._jvm: Any = spark._jvm
        self._loader = self._jvm.java.lang.Thread.currentThread().getContextClassLoader()
        self._catalyst = self._jvm.org.apache.spark.sql.catalyst.expressions
        self._types = self._jvm.org.apache.spark.sql.types
        self._bridge = self._jvm.org.apache.spark.sql.classic.ExpressionUtils

    def call_static(self, class_name: str, method: str, result: str, *arguments: Column) -> Column:
        """Call a static Java method; null if an argument is null.

        Args:
            class_name: The Java class.
            method: Its static method, found by the types of the arguments.
            result: The result's type: SQL, or a Java class name for an object that only further calls take.
            arguments: The arguments.
        """
        none = self._jvm.scala.Option.empty()
        return self._column(
            self._catalyst.objects.StaticInvoke(
                self._class(class_name),
                self._type(result),
                method,
                self._expressions(arguments),
                self._sequence([]),
                True,  # null in, null out
                True,  # the result may be null
                True,  # deterministic
                none,
            )
        )

    def call(self, target: Column, method: str, result: str, *arguments: Column) -> Column:
        """Call a Java method of the object in a column; null if the object or an argument is null."""
        return self._column(
            self._catalyst.objects.Invoke(
                self._expression(target),
                method,
                self._type(result),
                self._expressions(arguments),
                self._sequence([]),
                True,  # null in, null out
                True,  # the result may be null
                True,  # deterministic
            )
        )

    def decimal(self, unscaled: Column, scale: int) -> Column:
        """A decimal of 38 digits from its unscaled value, a `java.math.BigInteger`."""
        name = "java.math.BigDecimal"
        none = self._jvm.scala.Option.empty()
        arguments = self._expressions([unscaled, sf.lit(scale)])
        made = self._catalyst.objects.NewInstance(
            self._class(name), arguments, self._sequence([]), True, self._type(name), none
        )
        return self.call_static(
            "org.apache.spark.sql.types.Decimal", "apply", f"decimal(38, {scale})", self._column(made)
        )

    def micros(self, timestamp: Column, type_: str) -> Column:
        """Microseconds since 1970-01-01 00:00 (UTC) as `bigint`, independent of the session's time zone.

        Args:
            timestamp: The column.
            type_: Its type: `timestamp` or `timestamp_ntz`.
        """
        return self._column(
            self._catalyst.PreciseTimestampConversion(
                self._expression(timestamp), self._type(type_), self._type("bigint")
            )
        )

    def not_null(self, column: Column) -> Column:
        """Mark a column as free of nulls, which makes it `required` in a Parquet file."""
        return self._column(self._catalyst.KnownNotNull(self._expression(column)))

    def _column(self, expression: Any) -> Column:
        return ClassicColumn(self._bridge.column(expression))

    def _expression(self, column: Column) -> Any:
        return self._bridge.expression(column._jc)

    def _expressions(self, columns: Iterable[Column]) -> Any:
        return self._sequence(self._expression(column) for column in columns)

    def _sequence(self, items: Iterable[Any]) -> Any:
        return self._jvm.PythonUtils.toSeq(list(items))

    def _class(self, name: str) -> Any:
        return self._jvm.java.lang.Class.forName(name, True, self._loader)

    def _type(self, name: str) -> Any:
        if name.startswith("java."):
            return self._types.ObjectType(self._class(name))
        return self._types.DataType.fromDDL(name)
