"""Horovod as an optional program: its optimizer with the models, data and timing of program torch."""
