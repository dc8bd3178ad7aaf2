"""A history as tables for SQL, through DuckDB.

`schema` declares the tables, `tables` makes their columns of a history, `pushed` lets DuckDB read
only what a statement needs, and `connection` is what a caller has.
"""

from meantime.query.sql.connection import Answer, Database, SqlTable, answer, database, sql

__all__ = ["Answer", "Database", "SqlTable", "answer", "database", "sql"]
