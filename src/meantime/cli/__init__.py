"""The command line: dispatch here, one module per command, imported only when asked for."""
