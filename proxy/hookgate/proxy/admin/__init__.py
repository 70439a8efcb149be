"""The operators' side: health, metrics, and the panel."""
