"""The terms of F = f + h + g and of u(x) = 0: values, gradients, projections."""
