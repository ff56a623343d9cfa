"""Scoring as in the papers: reference scores, protocols for curves and sweeps, statistics, published results."""
