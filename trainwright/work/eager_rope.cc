#include "trainwright/work/eager.h"

namespace trainwright::detail {
namespace {

struct RotationNames {
  std::string_view by_cosine, turned, by_sine, rotated, joined;
};
constexpr RotationNames kQuery = {"query_by_cosine", "query_turned", "query_by_sine",
                                  "query_rotated", "query_joined"};
constexpr RotationNames kKey = {"key_by_cosine", "key_turned", "key_by_sine", "key_rotated",
                                "key_joined"};

// The kernel reads its part of the storage and not the whole.
void read_part(Builder& b, const View& x, Operator& op) {
  const Tensor& whole = b.at(x.storage);
  op.forward.read -= Bytes(checked_mul(whole.elements - x.elements, byte_size(whole.dtype)));
}

// x cos + turn(x) sin. Cosine and sine have no gradient, so the products save only those: two
// tables of tokens x head width that the model makes once for all its layers, which no layer
// counts. Where a part of the head is rotated, temporaries are taken as wide as the whole.
TensorId rotated(Builder& b, const View& x, const RotationNames& names) {
  // Cosine and sine have the dtype of what flows between branches, and so have products with them.
  const Dtype dtype = b.recipe.wide ? Dtype::Fp32 : b.at(x.storage).dtype;
  const TensorId by_cosine = b.tensor(names.by_cosine, dtype, x.elements, b.at(x.storage).copies);
  Operator& cosine = each(b, "times_cosine", {x.storage}, by_cosine);
  read_part(b, x, cosine);
  if (b.recipe.code.keeps_factors) cosine.saves.push_back({x.storage, Half::Input});
  const TensorId turned = b.like(by_cosine, names.turned, b.at(x.storage).dtype);
  Operator& turn = each(b, "turn", {x.storage}, turned);
  turn.workspace = b.at(turned).bytes() / 2;
  read_part(b, x, turn);
  const TensorId by_sine = b.like(by_cosine, names.by_sine);
  Operator& sine = each(b, "times_sine", {turned}, by_sine);
  if (b.recipe.code.keeps_factors) sine.saves.push_back({turned, Half::Input});
  const TensorId sum = b.like(by_cosine, names.rotated);
  each(b, "rotate", {by_cosine, by_sine}, sum);
  if (!b.model.style.rotates_part) return sum;
  const TensorId joined = b.like(sum, names.joined);
  each(b, "join", {sum, x.storage}, joined, 0);
  return joined;
}

// The same by one kernel, which saves nothing but the tables.
TensorId rotated_at_once(Builder& b, const View& x, const RotationNames& names) {
  const Tensor whole = b.at(x.storage);
  const bool widens =
      b.model.style.takes_flash_kernels && !b.slice.compiled && whole.dtype != Dtype::Fp32;
  TensorId from = x.storage;
  if (widens) {
    from = b.tensor(names.turned, Dtype::Fp32, x.elements, whole.copies);
    read_part(b, x, each(b, "cast", {x.storage}, from, 0));
  }
  const TensorId sum = b.tensor(names.rotated, b.at(from).dtype, x.elements, whole.copies);
  Operator& op = each(b, "rotate", {from}, sum, 3);
  if (!widens) read_part(b, x, op);
  return cast(b, names.rotated, sum, whole.dtype);
}

}  // namespace

Rotated eager_rotation(Builder& b, const View& query, const View& key) {
  const TensorId query_rotated = rotated(b, query, kQuery);
  return {query_rotated, rotated(b, key, kKey)};
}

Rotated fused_rotation(Builder& b, const View& query, const View& key) {
  const TensorId query_rotated = rotated_at_once(b, query, kQuery);
  return {query_rotated, rotated_at_once(b, key, kKey)};
}

// Where layers look the tables up by position, they keep a row of each for every token, twice: for
// queries and for keys.
Rotated eager_rope(Builder& b, TensorId query, TensorId key, std::int64_t head_dim) {
  const View queries{query, b.at(query).elements}, keys{key, b.at(key).elements};
  if (!b.recipe.code.looks_up_rotation) return eager_rotation(b, queries, keys);
  const TensorId found = b.constant("cosine_sine", b.recipe.compute,
                                    checked_mul(4 * b.rows.inner, head_dim), b.slice.tp);
  b.add("look_up_rotation", OperatorKind::Lookup, {}, {found});
  const Rotated turned = eager_rotation(b, queries, keys);
  b.last().saves.push_back({found, Half::Input});
  return turned;
}

// Queries and keys are joined anew from the part that is rotated and the part that is not, so both
// become storages of their own; the one rotated key head is repeated for all. Values stay a part of
// `key_value`, unless the caller has a tensor for them.
Rotated eager_latent_rope(Builder& b, const LatentHeads& x) {
  const Tensor query = b.at(x.query);
  const std::int64_t tokens = query.elements / (x.heads * (x.nope_dim + x.rope_dim));
  const auto turned = [&](std::string_view name, TensorId from, std::int64_t heads) {
    const std::int64_t elements = checked_mul(checked_mul(tokens, heads), x.rope_dim);
    const TensorId result = b.tensor(name, query.dtype, elements, b.at(from).copies);
    Operator& op = each(b, "rotate", {from}, result, 3);
    op.workspace = b.at(result).bytes() * 2;
    return result;
  };
  const TensorId query_turned = turned("query_turned", x.query, x.heads);
  const TensorId key_turned = turned("key_turned", x.key_rope, 1);
  const TensorId query_rotated = b.like(x.query, "query_rotated");
  each(b, "join", {x.query, query_turned}, query_rotated, 0);
  const TensorId key_rotated = b.like(x.query, "key_rotated");
  each(b, "join", {x.key_value, key_turned}, key_rotated, 0);
  if (x.value != x.key_value) each(b, "copy", {x.key_value}, x.value, 0);
  return {query_rotated, key_rotated};
}

}  // namespace trainwright::detail
