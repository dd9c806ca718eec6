"""The policies, one file a family. The registry finds them; policies never import one another."""
