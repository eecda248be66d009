"""Changes of many keys as columns: sorted by the hash of the key, looked up and merged without an object for each key."""
