#pragma once
// Private to the module: the law behind exact intervals of shares.

namespace trainwright::detail {

// I_x(a, b), the regularised incomplete beta function, for a, b > 0 and 0 <= x <= 1; to about 1e-14
// by its continued fraction (Numerical Recipes, 3rd edition, section 6.4).
double incomplete_beta(double a, double b, double x);

// The x with I_x(a, b) = probability, by bisection.
double beta_quantile(double a, double b, double probability);

}  // namespace trainwright::detail
