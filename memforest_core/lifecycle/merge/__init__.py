"""Merging forests: facts reconciled, matching scopes united, other trees copied as they are; no extraction."""
