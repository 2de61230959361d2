"""Small reference implementations of methods that papers of this library describe."""

from __future__ import annotations

import math

import numpy as np


def momentum_step(weights, velocity, gradient, rate, momentum=0.9):
    """One step of gradient descent with heavy-ball momentum; returns weights and velocity."""
    velocity = momentum * velocity - rate * gradient
    return weights + velocity, velocity


def annealed_rate(step, steps, peak, warm_up=0.1):
    """The learning rate at a step: linear warm-up to `peak`, then half a cosine to zero."""
    rising = warm_up * steps
    if step < rising:
        return peak * (step + 1) / rising
    return 0.5 * peak * (1 + math.cos(math.pi * (step - rising) / (steps - rising)))


def dropped(activations, rate, random):
    """Inverted dropout: units are silenced with probability `rate`, the others scaled up."""
    kept = random.random(activations.shape) >= rate
    return activations * kept / (1 - rate)


def standardised(images, mean, deviation):
    """Pixels with zero mean and unit variance; those that never change are only centred."""
    return (images - mean) / np.where(deviation > 0, deviation, 1)


def shifted(images, across, down):
    """Square images moved by whole pixels; the border is filled with zeros."""
    size = images.shape[1]
    moved = np.zeros_like(images)
    rows, columns = (
        slice(max(0, down), size + min(0, down)),
        slice(max(0, across), size + min(0, across)),
    )
    from_rows, from_columns = (
        slice(max(0, -down), size - max(0, down)),
        slice(max(0, -across), size - max(0, across)),
    )
    moved[:, rows, columns] = images[:, from_rows, from_columns]
    return moved


class Ensemble:
    """Averages the class probabilities of networks that were trained one by one."""

    def __init__(self, networks):
        self.networks = networks

    def probabilities(self, images):
        """The mean over all networks: an array of images by classes."""
        return np.mean([network.probabilities(images) for network in self.networks], axis=0)
