"""Paleo: training time layer by layer from FLOPs and bytes.

H. Qi, E. Sparks and A. Talwalkar, "Paleo: a performance model for deep neural networks", ICLR 2017. Reproduces the
authors' release (TalwalkarLab/paleo, Apache-2.0) in GEMM mode; nothing of it is fitted.
"""
