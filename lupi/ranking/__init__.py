"""Ranking SVM and Rank Transfer."""
