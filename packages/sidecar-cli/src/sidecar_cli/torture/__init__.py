"""What `sidecar doctor --torture` does: runs that must come through whatever happens to their rows and their driver."""
