#pragma once
// Private to the module: the few probability laws that scoring needs.

namespace trainwright::detail {

// I_x(a, b), the regularised incomplete beta function, for a, b > 0 and 0 <= x <= 1; to about 1e-14
// by its continued fraction (Numerical Recipes, 3rd edition, section 6.4).
double incomplete_beta(double a, double b, double x);

// The x with I_x(a, b) = probability, by bisection.
double beta_quantile(double a, double b, double probability);

// P(T <= t) for Student's law.
double student_t_cdf(double t, double degrees);
// Logarithm of its density.
double student_t_log_density(double t, double degrees);

}  // namespace trainwright::detail
