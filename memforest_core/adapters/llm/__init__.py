"""Chat models behind the port: litellm, its errors in our taxonomy, its calls under a deadline."""
