// Parts of a step and categories of memory by what they are: a family shares one hue, on every figure of the page.
export const TIME = [
  ["Compute", "compute", ["products", "attention", "streams", "loss", "optimizer"]],
  ["Exposed communication", "communication", ["tensor", "context", "expert", "pipeline", "data", "offload"]],
  ["Idle", "idle", ["bubble", "waiting"]],
  ["Overhead", "overhead", ["gaps", "host", "fixed"]]];
export const MEMORY = [
  ["Model states", "states", ["weights", "main_weights", "gradients", "optimizer_states"]],
  ["Activations", "kept", ["activations", "logits"]],
  ["Temporary buffers", "temporary", ["transients", "step", "workspace"]],
  ["Communication buffers", "communication", ["gather_buffers", "reduce_buffers", "point_to_point", "communicators"]],
  ["Context and fragmentation", "overhead", ["slack", "context"]]];

// The context's parallel communication and the CUDA context are two parts of one name.
export const shade = (families, key) => families === TIME && key === "context" ? "f-context_time" : `f-${key}`;

// [[family, class, [[key, value], ...], sum], ...] of those that are above nothing; a key that is in no family belongs to the last.
export function grouped(families, values) {
  const known = new Set(families.flatMap(([, , keys]) => keys)), others = Object.keys(values).filter(key => !known.has(key));
  return families.map(([name, kind, keys], i) => {
    const of = [...keys, ...(i === families.length - 1 ? others : [])].filter(key => values[key] > 0).map(key => [key, values[key]]);
    return [name, `g-${kind}`, of, of.reduce((sum, [, value]) => sum + value, 0)];
  }).filter(([, , , sum]) => sum > 0);
}

// Keys in the order of their families, so that one family is one run of a stacked bar.
export const inOrder = (families, values) => grouped(families, values).flatMap(([, , of]) => of);
