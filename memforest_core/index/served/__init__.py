"""An embedded node's vector index for the other processes of its user: JSON over a Unix domain socket."""
