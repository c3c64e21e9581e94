"""From files that people have to sessions: other memories' exports, chat exports, data sets."""
