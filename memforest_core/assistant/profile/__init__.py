"""What people ask of a memory in words: remember this, forget that, what do you know about me."""
