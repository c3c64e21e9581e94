"""What answering reads and writes: whose memory it is, and what the calls cost."""

from __future__ import annotations
