"""DeepSpeed's ZeRO as strategies of program torch; DeepSpeed itself is optional."""
