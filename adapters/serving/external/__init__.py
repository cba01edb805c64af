"""The external metrics API of Kubernetes, external.metrics.k8s.io/v1beta1, that an HPA reads through the aggregator."""
