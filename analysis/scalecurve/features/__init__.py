"""Results, sections and plots of features: a folder for each."""
