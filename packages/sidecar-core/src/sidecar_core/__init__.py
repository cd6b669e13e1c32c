"""Row-aligned Parquet sidecars: registries, YAML models, storage, the streaming shard engine and isolation."""
