"""Geometry of boxes and exact search for the best one."""
