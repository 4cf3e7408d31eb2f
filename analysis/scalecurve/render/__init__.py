"""Text output: tables, number formatting, series labels and the progress line."""
