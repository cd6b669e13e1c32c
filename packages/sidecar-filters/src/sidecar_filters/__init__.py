"""Image measures, each computed in an isolated child process, for sidecars and for any other project."""
