"""From a running engine to the simulated one: the coefficients that the controller's own fit finds, and how well they
predict.
"""
