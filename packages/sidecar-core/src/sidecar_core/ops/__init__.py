"""The ops that come with the core, one a file; the file's name is the op's `type`."""
