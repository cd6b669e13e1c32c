"""What `sidecar init` does: look at a prefix, choose its columns, write YAML."""
