"""Rewards that a language model gives by comparing the trajectories of a group."""

from practicum.art.rewards.ruler import TrajectoryScore, ruler, ruler_score_group

__all__ = ["TrajectoryScore", "ruler", "ruler_score_group"]
