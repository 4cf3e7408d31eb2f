"""What is generated from the chart."""
