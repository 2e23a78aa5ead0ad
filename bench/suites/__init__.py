"""The suites, one file each: what is measured, against whom, and how it is built."""
