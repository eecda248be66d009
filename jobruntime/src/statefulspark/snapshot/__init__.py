"""Snapshots on storage: closure of a committed batch, manifest, verification, copies, recovery and pruning."""
