"""The memory behind the interfaces of agent frameworks: each module needs its framework, nothing here imports it."""
