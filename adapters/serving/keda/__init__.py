"""KEDA's external scaler: the numbers of publications, by gRPC."""
