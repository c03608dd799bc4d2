"""Pricing on the line: what moving mass from a held coordinate to one at 0 gains, for very many of the latter."""

from __future__ import annotations

import numpy as np

from counterpoise.kernels.basics import larger, smaller
from counterpoise.kernels.dispatch import entry_point


@entry_point
def entering_gains(slope, diagonal, cross, top, held_slope, held_diagonal, mass, rests, lam, old_top, best):
    """Write for each coordinate k at 0 the largest decrease of F over moves of η from a held coordinate j to k.

    ΔF(η) = (slopeₖ − held_slopeⱼ)η + ½(Q_kk + Q_jj − 2Q_kj)η² − λ(‖x⁺‖_[s] − ‖x‖_[s]) for 0 ≤ η ≤ min(massⱼ, topₖ).
    It is a minimum of three convex quadratics, eq. (SIT), whose minimisers are the candidates. λ = ∞ stands for a limit
    on the number of non-zeros: ``old_top`` is then 1 if there is a place to spare; otherwise all of j goes to k.

    Parameters
    ----------
    slope, diagonal, top : arrays over k
        ∇ₖf + the right slope of h, Q_kk, and how much k can take.
    cross : array, held × k
        Q_jk.
    held_slope, held_diagonal, mass : arrays over j
        ∇ⱼf + the left slope of h, Q_jj, and how much j can give.
    rests : array, held × 4
        xⱼ and the sums of the s, s − 1 and s − 2 largest of the others.
    """
    for k in range(len(slope)):
        largest = 0.0
        here, bend, room = slope[k], diagonal[k], top[k]
        for j in range(len(mass)):
            beta = here - held_slope[j]
            # ‖x⁺‖_[s] does not rise when a zero takes mass, so only a downhill move can gain.
            if beta >= 0.0:
                continue
            most = smaller(mass[j], room)
            alpha = bend + held_diagonal[j] - 2.0 * cross[j, k]
            at, t0, t1, t2 = rests[j, 0], rests[j, 1], rests[j, 2], rests[j, 3]
            if lam == np.inf:
                eta = most
                if old_top > 0.0 and alpha > 0.0:
                    eta = smaller(-beta / alpha, most)
                if old_top > 0.0 or eta == at:
                    largest = larger(largest, -eta * (beta + 0.5 * alpha * eta))
                continue
            for state in range(4):
                if state == 3:
                    eta = most
                elif alpha > 0.0:
                    push = -beta if state == 0 else (lam - beta if state == 1 else -lam - beta)
                    eta = smaller(larger(push / alpha, 0.0), most)
                else:
                    continue
                a, b = eta, at - eta
                new_top = larger(larger(t0, t1 + larger(a, b)), t2 + a + b)
                gain = -eta * (beta + 0.5 * alpha * eta) + lam * (new_top - old_top)
                if gain > largest:
                    largest = gain
        best[k] = largest
