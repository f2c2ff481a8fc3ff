"""What hindlake tells of its own runs, and never of what memories say.

events      what is told, by which fields: one table of each
logs        lines on standard error, where the settings ask for them
otel        spans and figures: the second door to OpenTelemetry, beside `sdk/otel.py`
observing   a run, told in all of these ways
calls       a call to a model, as a span and in figures
spending    what calls to models have used, until the run that they are for is kept

As a library hindlake says nothing by itself: lines go to the logger `hindlake.run`, and spans and figures to the
providers that the application has set up.
"""
