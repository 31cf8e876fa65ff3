"""Attention over a sequence that is cut over processes, small enough to be checked: a ring that passes keys and
values on, and Ulysses, which exchanges tokens for heads. Both save what the operator list says they save, and
their gradients are those of the unsplit attention (test_split_layers.py)."""
import torch
import torch.distributed as dist


def attended(query, key, value, mask):
    """One block in fp32: output and log of the sum of exponentials."""
    scores = (query.float() @ key.float().transpose(-1, -2)) * query.shape[-1] ** -0.5
    scores = scores.masked_fill(~mask, float("-inf"))
    statistic = scores.logsumexp(-1)
    weights = (scores - statistic.unsqueeze(-1)).exp().nan_to_num(0.0)
    return weights @ value.float(), statistic


def repeated(x, times: int):
    return x.repeat_interleave(times, dim=1)


def summed(gradient, times: int):
    """The gradient of `repeated`'s argument."""
    return gradient.unflatten(1, (-1, times)).sum(2)


def visible(queries: int, keys: int, query_chunk: int, key_chunk: int) -> torch.Tensor:
    """Which keys of a chunk a query of another one sees."""
    first = torch.arange(queries).unsqueeze(1) + query_chunk * queries
    second = torch.arange(keys).unsqueeze(0) + key_chunk * keys
    return second <= first


def pass_on(tensors: list[torch.Tensor], group) -> list[torch.Tensor]:
    """Sends to the next rank what the one before sends to us."""
    rank, world = dist.get_rank(group), dist.get_world_size(group)
    received = [torch.empty_like(tensor) for tensor in tensors]
    waits = []
    for tensor, place in zip(tensors, received):
        sends = dist.isend(tensor, dist.get_global_rank(group, (rank + 1) % world), group=group)
        waits += [sends, dist.irecv(place, dist.get_global_rank(group, (rank - 1) % world), group=group)]
    for wait in waits:
        wait.wait()
    return received


class RingAttention(torch.autograd.Function):
    """Causal attention of local queries with all keys and values, which go round: world - 1 passes forward; in
    backward those again, and the gradients of keys and values travel with them until they are home."""

    @staticmethod
    def forward(context, query, key, value, group):
        rank, world = dist.get_rank(group), dist.get_world_size(group)
        repeats = query.shape[1] // key.shape[1]
        output = statistic = None
        k, v = key.contiguous(), value.contiguous()
        for step in range(world):
            chunk = (rank - step) % world
            mask = visible(query.shape[-2], k.shape[-2], rank, chunk)
            if mask.any():
                part, part_statistic = attended(query, repeated(k, repeats), repeated(v, repeats), mask)
                if output is None:
                    output, statistic = part, part_statistic
                else:
                    total = torch.logaddexp(statistic, part_statistic)
                    output = (output * (statistic - total).exp().unsqueeze(-1)
                              + part * (part_statistic - total).exp().unsqueeze(-1))
                    statistic = total
            if step + 1 < world:
                k, v = pass_on([k, v], group)
        # As the queries lie in memory, so that the next product can take it as it is.
        output = output.to(query.dtype).transpose(1, 2).contiguous().transpose(1, 2)
        context.save_for_backward(query, key, value, output, statistic)
        context.group = group
        return output

    @staticmethod
    def backward(context, gradient):
        query, key, value, output, statistic = context.saved_tensors
        group = context.group
        rank, world = dist.get_rank(group), dist.get_world_size(group)
        q, g = query.float(), gradient.float()
        row = (g * output.float()).sum(-1, keepdim=True)
        repeats = query.shape[1] // key.shape[1]
        dq = torch.zeros_like(q)
        k, v = key.contiguous(), value.contiguous()
        home = away = None
        for step in range(world):
            mask = visible(q.shape[-2], k.shape[-2], rank, (rank - step) % world)
            wide_k, wide_v = repeated(k, repeats).float(), repeated(v, repeats).float()
            scores = (q @ wide_k.transpose(-1, -2)) * q.shape[-1] ** -0.5
            weights = (scores - statistic.unsqueeze(-1)).exp().masked_fill(~mask, 0.0)
            d = weights * (g @ wide_v.transpose(-1, -2) - row) * q.shape[-1] ** -0.5
            dq += d @ wide_k
            mine = [summed(d.transpose(-1, -2) @ q, repeats), summed(weights.transpose(-1, -2) @ g, repeats)]
            if step == 0:
                home = mine
            else:
                away = [(a.float() + b).to(key.dtype) for a, b in zip(away, mine)] if away else [a.to(key.dtype) for a in mine]
            if step + 1 < world:
                k, v = pass_on([k, v], group)
            if away:
                away = pass_on(away, group)
        if away:
            home = [a + b.float() for a, b in zip(home, away)]
        return dq.to(query.dtype), home[0].to(key.dtype), home[1].to(value.dtype), None


class Exchange(torch.autograd.Function):
    """all_to_all_single of equal parts; backward is the same again."""

    @staticmethod
    def forward(context, x, group):
        context.group = group
        result = torch.empty_like(x)
        dist.all_to_all_single(result, x, group=group)
        return result

    @staticmethod
    def backward(context, gradient):
        return Exchange.apply(gradient.contiguous(), context.group), None


def heads_for_tokens(x, group):
    """[batch, tokens of the rank, heads, width] to [batch, all tokens, heads of the rank, width]."""
    world = dist.get_world_size(group)
    batch, tokens, heads, width = x.shape
    parts = x.view(batch, tokens, world, heads // world, width).permute(2, 0, 1, 3, 4).contiguous()
    parts = Exchange.apply(parts, group)
    return parts.permute(1, 0, 2, 3, 4).reshape(batch, world * tokens, heads // world, width)


def tokens_for_heads(x, group):
    """And back."""
    world = dist.get_world_size(group)
    batch, tokens, heads, width = x.shape
    parts = x.view(batch, world, tokens // world, heads, width).transpose(0, 1).contiguous()
    parts = Exchange.apply(parts, group)
    return parts.permute(1, 2, 0, 3, 4).reshape(batch, tokens // world, world * heads, width)


def ring_attention(module, query, key, value, mask, *, group, **_):
    output = RingAttention.apply(query, key, value, group)
    return output.transpose(1, 2).contiguous(), None


def ulysses_attention(module, query, key, value, mask, *, group, **_):
    query, key, value = (heads_for_tokens(x.transpose(1, 2), group).transpose(1, 2) for x in (query, key, value))
    output = torch.nn.functional.scaled_dot_product_attention(
        query, key, value, is_causal=True, enable_gqa=query.shape[1] != key.shape[1])
    return tokens_for_heads(output.transpose(1, 2), group), None
