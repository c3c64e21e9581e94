"""Limits on calls to models: shared in Redis, in memory while Redis is unavailable, and the models behind them."""
