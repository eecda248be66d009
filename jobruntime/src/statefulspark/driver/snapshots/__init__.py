"""A snapshot from the file list to its announcement, and what is known of it: duration, size, state by operator."""
