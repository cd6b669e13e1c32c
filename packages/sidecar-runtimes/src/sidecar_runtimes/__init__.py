"""Where sidecar shards are processed: runtimes on this machine and on Ray, runs, leases, manifests, verification."""
