"""Evaluation as the papers do it: reference scores, protocols for curves and sweeps, statistics, published results."""
