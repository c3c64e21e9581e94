"""How everything grows: large forests, many forests, bursts, long sessions, tenants, workers, each against a tenth."""
