"""Where sidecar shards are processed: the local runtime, runs, manifests and verification."""
