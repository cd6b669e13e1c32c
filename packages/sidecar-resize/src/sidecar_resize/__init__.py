"""Resized image datasets aligned with their main dataset: geometry, codec, audit columns, verifier."""
