"""The live web page: what a cluster does now, what models predict of it, and the controls that change it."""
