"""The fleet simulation in compiled loops over arrays of whole numbers.

``layout`` says what the columns of the arrays mean, ``tally`` counts what pages show, ``spans`` is the arithmetic of
growing steps, ``stretches`` an engine with continuous batching, ``batches`` a server with dynamic batching, ``fleet``
routes arrivals to either. All times are picoseconds in 64 bits: with fractions, a step's end that ties with an arrival
falls to one side or the other.
"""
