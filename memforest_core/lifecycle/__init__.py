"""Operations on stored memory: erase, correct, retain, merge, rebuild, export, import, verify, back up."""
