"""What operators use beside a gateway: Helm, Prometheus, OpenTelemetry."""
