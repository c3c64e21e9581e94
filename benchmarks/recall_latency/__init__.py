"""How long a recall takes as forests grow: a seeded world, rows as the pipeline leaves them, and real recalls."""
