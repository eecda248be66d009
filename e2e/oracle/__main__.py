"""Compare a job's committed results with the truth: `python -m oracle s3://bucket/flights/output --endpoint URL`.

Exits with 0 when every row is exact, with 1 when anything is lost, repeated or different.
"""

from __future__ import annotations

import argparse
import sys

from statefulspark import errors, storage

from oracle import compare, results, truth


def main() -> int:
    """Read the command line, compare and print."""
    parser = argparse.ArgumentParser(prog="python -m oracle", description="Compare the flights job's results.")
    parser.add_argument("output", help="the job's output folder, holding aircraft/ and carriers/")
    parser.add_argument("--endpoint", help="URL of an S3-compatible server")
    parser.add_argument("--allow-local-files", action="store_true", help="permit file:///folder, for development")
    options = parser.parse_args()
    connection = storage.StorageOptions.from_env(endpoint=options.endpoint, allow_local_files=options.allow_local_files)
    try:
        output = storage.open_store(options.output, connection)
        found = compare.compare(
            truth.compute(truth.raw_flights()),
            aircraft=results.read_batches(output.child("aircraft")),
            carriers=results.read_batches(output.child("carriers")),
        )
    except errors.StatefulSparkError as error:
        print(error.message, file=sys.stderr)
        return 1
    print(f"lost {found.lost}, repeated {found.repeated}, different {found.different}")
    print(f"{found.keys:,} keys, {found.fields:,} values, carrier rows by version {dict(found.rows_by_version)}")
    print("\n".join(found.examples))
    return 0 if found.is_exact else 1


if __name__ == "__main__":
    sys.exit(main())
