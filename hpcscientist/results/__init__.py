"""Result files: schema, store, compaction, aggregation. Here alone is pyarrow imported."""
