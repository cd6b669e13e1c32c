"""For tests of filters: a conformance class, drawn pictures, and filters that misbehave."""
