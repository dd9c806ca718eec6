"""Grafana: what is provisioned, and the code that writes the dashboards."""
