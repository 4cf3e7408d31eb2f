"""Kubernetes on this machine as plain processes: a control plane with fake nodes, or with real ones."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
"""The repository"""
