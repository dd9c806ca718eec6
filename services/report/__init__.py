"""Turns the results of a command into figures and one page that opens anywhere; others write the files."""
