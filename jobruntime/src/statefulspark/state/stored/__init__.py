"""State as stored: chunks, their compaction and evolution, and the store of a key group."""
