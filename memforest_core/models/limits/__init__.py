"""Limits on calls to models: shared in Redis, kept in memory while Redis is away, and the models behind them."""
