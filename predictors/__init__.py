"""Estimators: demand forecasts, step-time capacity and start-up times. Numbers in, numbers out; no cluster."""
