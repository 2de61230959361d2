"""Result files: schema, storage, compaction, aggregation."""
