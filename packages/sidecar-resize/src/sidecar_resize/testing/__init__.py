"""Pictures, whole and broken, for tests; nothing of it is imported outside of tests."""
