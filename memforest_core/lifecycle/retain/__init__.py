"""Bounding memory: policies limit ages and sizes, and runs forget what is too old or least important."""
