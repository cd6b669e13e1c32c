"""What `sidecar doctor` looks at: each module returns findings and mends nothing."""
