"""The sidecar command line."""
