"""Networks: torsos, cores and heads."""
