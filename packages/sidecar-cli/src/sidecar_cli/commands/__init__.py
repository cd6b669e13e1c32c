"""One module per command, or per family of commands; each reads options, calls one function, and prints."""
