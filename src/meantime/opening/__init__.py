"""From a path to a history: what is built, kept and found again.

    history_from_path -> cache -> directory_build -> provenance -> readers, providers -> history
                               history_from_trace -> directory_build

A path names either a finished history, which is opened, or a trace, whose history comes from the
cache, is built into the cache, or is built in memory. Calls go only to the right, and so do
imports, including those for types: import-linter checks it.

A cached history is stale when the trace, the provider, the provider's version or code, or
`cache.READING_RULES` differ. That number is increased when the same input would give different
figures; a test with digests of the sample traces fails until it is. The version of meantime would
not do: it stays the same between releases, and it changes with releases that read everything as
before. A history built with `meantime build` stays valid, and any meantime that can read its
directory can resume it.
"""
