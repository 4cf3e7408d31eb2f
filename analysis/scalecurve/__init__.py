"""Reads a bundle of records and says what it shows: tables, fits, comparisons and reports."""
