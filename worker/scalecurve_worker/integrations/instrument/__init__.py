"""Measures a command without a change to it: hooks that every Python of the command finds at its start.

``process.injection`` puts the ``sitecustomize`` of ``injected`` before the environment's own. When the command imports
torch, ``hooks`` registers what torch offers, and ``loop`` drives a ``Bench``: an optimizer update ends a step.
"""
