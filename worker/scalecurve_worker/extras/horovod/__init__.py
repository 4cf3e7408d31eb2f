"""Horovod, as an optional program: its optimizer around the models, data and timing of program torch."""
