#pragma once
// The recompute-and-backward program of one Llama-2 layer as PaddlePaddle's static graph runs it:
// sequence 2048, hidden 4096, 32 heads, feed-forward 11008, fp32, micro-batch 1. It is the program
// behind op_by_op_backward_memory.csv (PFCCLab/Camp weekly report 2024-04-06 to 2024-04-19),
// decoded from its sizes and from PaddleNLP's LlamaDecoderLayer.
//
// Weights and the rotary tables are persistable and left out, as the estimator leaves them out.
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "trainwright/base/text.h"
#include "trainwright/replay/replay.h"

namespace trainwright::testing {

// One op: "estimator's name | real name | needs | only mentions | makes". "-" as a name: the op is
// not a row of that column. "a:X@b" makes a of size X, in place of b if that is dead; "a:X~b" is a
// view of b; "a:X!" persists.
constexpr const char* kLlamaLayerOps = R"(
cast | cast | hidden | | c1:X
pow | pow | c1 | | p1:X
reduce_mean | mean | p1 | | m1:V
scale | scale_ | m1 | | e1:V@m1
rsqrt | rsqrt_ | e1 | | r1:V@e1
elementwise_mul | multiply | r1 hidden | | n1:X
elementwise_mul | multiply | n1 | | w1:X
matmul_v2 | matmul | w1 | | q0:X
reshape2 | reshape_ | q0 | | q1:X~q0
matmul_v2 | matmul | w1 | | k0:X
reshape2 | reshape_ | k0 | | k1:X~k0
matmul_v2 | matmul | w1 | | v0:X
reshape2 | reshape_ | v0 | | v1:X~v0
squeeze2 | squeeze | | | cs:C
squeeze2 | squeeze | | | sn:C
unsqueeze2 | unsqueeze | ids | | i1:I
gather_nd | gather_nd | cs i1 | | cg:C
unsqueeze2 | unsqueeze_ | cg | | cu:C~cg
unsqueeze2 | unsqueeze | ids | | i2:I
gather_nd | gather_nd | sn i2 | | sg:C
unsqueeze2 | unsqueeze_ | sg | | su:C~sg
elementwise_mul | multiply | q1 cu | | qc:X
slice | slice | q1 | | qa:H
slice | slice | q1 | | qb:H
scale | scale_ | qb | | qn:H@qb
concat | concat | qn qa | | qr:X
elementwise_mul | multiply | qr su | | qs:X
elementwise_add | add | qc qs | | qe:X
elementwise_mul | multiply | k1 cu | | kc:X
slice | slice | k1 | | ka:H
slice | slice | k1 | | kb:H
scale | scale_ | kb | | kn:H@kb
concat | concat | kn ka | | kr:X
elementwise_mul | multiply | kr su | | ks:X
elementwise_add | add | kc ks | | ke:X
transpose2 | transpose | qe | | qt:X
transpose2 | transpose | ke | | kt:X
transpose2 | transpose | v1 | | vt:X
scale | scale_ | qt | | qz:X@qt
transpose2 | transpose | kt | | kT:X
matmul_v2 | matmul | qz kT | | sc:S
reshape2 | reshape | mask | | m4:H~mask
elementwise_add | add | sc m4 | | sm:S
cast | cast_ | sm | | sf:S@sm
softmax | softmax_ | sf | | pr:S@sf
cast | cast | pr | | pc:S
matmul_v2 | matmul | pc vt | | at:X
transpose2 | transpose | at | | au:X
reshape2 | reshape_ | au | | av:X~au
matmul_v2 | matmul | av | | o:X
elementwise_add | add | hidden o | | y:X
cast | cast | y | | c2:X
pow | pow | c2 | | p2:X
reduce_mean | mean | p2 | | m2:V
scale | scale_ | m2 | | e2:V@m2
rsqrt | rsqrt_ | e2 | | r2:V@e2
elementwise_mul | multiply | r2 y | | n2:X
elementwise_mul | multiply | n2 | | w2:X
matmul_v2 | matmul | w2 | | g:F
matmul_v2 | matmul | w2 | | u:F
swiglu | swiglu | g u | | z:F
matmul_v2 | matmul | z | | d:X
recv_v2 | recv_v2 | | | rv:X
assign | assign_ | rv | | dy:X@rv
elementwise_add_grad | add_grad_ | dy | y d | dya:X@dy dd:X
matmul_v2_grad | matmul_grad | dd z | | dz:F dWd:WF
elementwise_add | - | dWd | |
swiglu_grad | swiglu_grad | dz g u | | dg:F du:F
matmul_v2_grad | matmul_grad | du w2 | | dwa:X dWu:WF
elementwise_add | add_ | dWu | |
matmul_v2_grad | matmul_grad | dg w2 | | dwb:X dWg:WF
elementwise_add | - | dWg | |
sum | - | dwa dwb | | dw2:X
elementwise_mul_grad | multiply_grad | dw2 n2 | | dn2:X dWn2:WN
elementwise_add | - | dWn2 | |
elementwise_mul_grad | multiply_grad | dn2 y r2 | | dyb:X dr2:V
rsqrt_grad | rsqrt_grad_ | dr2 r2 | | de2:V@dr2
scale | scale_ | de2 | | dm2:V@de2
reduce_mean_grad | mean_grad | dm2 | p2 | dp2:X
pow_grad | pow_grad_ | dp2 c2 | | dc2:X@dp2
cast | cast_ | dc2 | | dyc:X@dc2
sum | add_n | dya dyb dyc | | dY:X
elementwise_add_grad | add_grad_ | dY | hidden o | dha:X@dY do:X
matmul_v2_grad | matmul_grad | do av | | dav:X dWo:WH
elementwise_add | - | dWo | |
reshape2_grad | reshape_grad_ | dav | | dau:X~dav
transpose2_grad | transpose_grad | dau | | dat:X
matmul_v2_grad | matmul_grad | dat pc vt | | dpc:S dvt:X
cast | cast_ | dpc | | dpr:S@dpc
softmax_grad | softmax_grad | dpr pr | | dsf:S
cast | cast_ | dsf | | dsm:S@dsf
elementwise_add_grad | add_grad_ | dsm | sc m4 | dsc:S@dsm
matmul_v2_grad | matmul_grad | dsc qz kT | | dqz:X dkT:X
transpose2_grad | transpose_grad | dkT | | dkt:X
scale | scale_ | dqz | | dqt:X@dqz
transpose2_grad | transpose_grad | dvt | | dv1:X
transpose2_grad | - | dkt | | dke:X
transpose2_grad | - | dqt | | dqe:X
elementwise_add_grad | add_grad_ | dke | kc ks | dkc:X@dke dks:X
elementwise_mul_grad | multiply_grad | dks kr su | | dkr:X
concat_grad | concat_grad | dkr | kn ka | dkn:H dka:H
scale | scale_ | dkn | | dkb:H@dkn
slice_grad | slice_grad | dkb | k1 | dk1a:X
slice_grad | - | dka | k1 | dk1b:X
elementwise_mul_grad | multiply_grad | dkc k1 cu | | dk1c:X
elementwise_add_grad | add_grad_ | dqe | qc qs | dqc:X@dqe dqs:X
elementwise_mul_grad | multiply_grad | dqs qr su | | dqr:X
concat_grad | concat_grad | dqr | qn qa | dqn:H dqa:H
scale | scale_ | dqn | | dqb:H@dqn
slice_grad | slice_grad | dqb | q1 | dq1a:X
slice_grad | - | dqa | q1 | dq1b:X
elementwise_mul_grad | multiply_grad | dqc q1 cu | | dq1c:X
reshape2_grad | reshape_grad_ | dv1 | | dv0:X~dv1
matmul_v2_grad | matmul_grad | dv0 w1 | | dwv:X dWv:WH
elementwise_add | - | dWv | |
sum | add_n | dk1a dk1b dk1c | | dk1:X
reshape2_grad | reshape_grad_ | dk1 | | dk0:X~dk1
matmul_v2_grad | matmul_grad | dk0 w1 | | dwk:X dWk:WH
elementwise_add | - | dWk | |
sum | add_n | dq1a dq1b dq1c | | dq1:X
- | reshape_grad_ | dq1 | | dq0:X~dq1
- | matmul_grad | dq0 w1 | | dwq:X dWq:WH
- | - | dWq | |
- | add_n | dwv dwk dwq | | dw1:X
- | multiply_grad | dw1 n1 | | dn1:X dWn1:WN
- | - | dWn1 | |
- | multiply_grad | dn1 hidden r1 | | dhb:X dr1:V
- | rsqrt_grad_ | dr1 r1 | | de1:V@dr1
- | scale_ | de1 | | dm1:V@de1
- | mean_grad | dm1 | p1 | dp1:X
- | pow_grad_ | dp1 c1 | | dc1:X@dp1
- | cast_ | dc1 | | dhc:X@dc1
- | add_n | dha dhb dhc | | dh:X!
)";

// What the last stage has after its layer (final norm, head over 32,000 tokens, loss), and the way
// back to the gradient `dy` that the layer's backward starts from. Decoded in the same way; the
// executor runs the loss in place of the logits.
constexpr const char* kLlamaHeadForward = R"(
elementwise_add | add | y d | | out:X
cast | cast | out | | c3:X
pow | pow | c3 | | p3:X
reduce_mean | mean | p3 | | m3:V
scale | scale_ | m3 | | e3:V@m3
rsqrt | rsqrt_ | e3 | | r3:V@e3
elementwise_mul | multiply | r3 out | | n3:X
elementwise_mul | multiply | n3 | | w3:X
matmul_v2 | matmul | w3 | | lg:L
softmax_with_cross_entropy | cross_entropy_with_softmax_ | lg | | sx:L@lg ls:V
reduce_mean | mean | ls | | lo:1
)";
constexpr const char* kLlamaHeadBackward = R"(
softmax_with_cross_entropy_grad | cross_entropy_with_softmax_grad_ | sx lo | | dlg:L@sx
matmul_v2_grad | matmul_grad | dlg w3 | | dw3:X dWh:WL
elementwise_add | - | dWh | |
elementwise_mul_grad | multiply_grad | dw3 n3 | | dn3:X dWn3:WN
elementwise_mul_grad | multiply_grad | dn3 out r3 | | dob:X dr3:V
rsqrt_grad | rsqrt_grad_ | dr3 r3 | | de3:V@dr3
scale | scale_ | de3 | | dm3:V@de3
reduce_mean_grad | mean_grad | dm3 | p3 | dp3:X
pow_grad | pow_grad_ | dp3 c3 | | dc3:X@dp3
cast | cast_ | dc3 | | doc:X@dc3
sum | add_n | dob doc | | dy:X
)";

// The estimator counts every mention of a variable as a use; the executor knows which buffers an op
// needs ("no need buffer").
enum class Mentions { AreUses, AreIgnored };

struct LlamaLayer {
  std::string text;                          // a static trace (docs/trace.md)
  std::vector<std::string> estimator_names;  // by op; "-": not a row
  std::vector<std::string> real_names;       // by op; "-": not a row
};

inline std::int64_t llama_layer_size(const std::string& symbol) {
  const std::int64_t s = 2048, h = 4096, heads = 32, ffn = 11008, fp32 = 4;
  const std::map<std::string, std::int64_t> sizes = {
      {"X", s * h * fp32},          // a hidden state
      {"H", s * h / 2 * fp32},      // half of one; also the mask, s x s
      {"V", s * fp32},              // one number per token
      {"C", s * h / heads * fp32},  // rotary cosines or sines
      {"I", s * 8},                 // positions, 64-bit
      {"S", heads * s * s * fp32},  // attention scores
      {"F", s * ffn * fp32},
      {"L", s * 32'000 * fp32},  // logits
      {"WL", h * 32'000 * fp32},
      {"1", fp32},
      {"WF", h * ffn * fp32},
      {"WH", h * h * fp32},
      {"WN", h * fp32}};
  return sizes.at(symbol);
}

class LlamaLayerWriter {
 public:
  explicit LlamaLayerWriter(Mentions mentions) : mentions_(mentions) {}

  // `there`: further tensors that exist at the start, as "name:size". `kept`: nothing that exists
  // at the start is freed.
  LlamaLayer run(std::string_view ops, const std::vector<std::string>& there = {},
                 bool kept = false) {
    layer_.text =
        "{\"trainwright_trace\": 1, \"program\": \"Llama-2 layer, recompute and backward\", "
        "\"frees\": \"last_use\"}\n";
    exist("hidden", "X");
    exist("mask", "H");
    exist("ids", "I");
    exist("other ids", "I");  // no op of this layer uses them
    for (const std::string& one : there) {
      const std::size_t colon = one.find(':');
      exist(one.substr(0, colon), one.substr(colon + 1));
    }
    for (std::size_t id = 0; kept && id < ids_.size(); ++id) {
      layer_.text += "[7," + number(static_cast<std::int64_t>(id)) + "]\n";
    }
    for (const std::string_view line : split(ops, '\n')) {
      if (!line.empty()) op(split(line, '|'));
    }
    return layer_;
  }

 private:
  int text(const std::string& name) {
    const auto [found, fresh] = texts_.try_emplace(name, static_cast<int>(texts_.size()));
    if (fresh) layer_.text += "\"" + name + "\"\n";
    return found->second;
  }

  std::string number(std::int64_t value) { return std::to_string(value); }

  void exist(const std::string& name, const std::string& size) {
    const int label = text(name);
    const int id = static_cast<int>(ids_.size());
    ids_[name] = id;
    layer_.text += "[4," + number(id) + "," + number(llama_layer_size(size)) + ",6," +
                   number(label) + ",-1]\n";
  }

  static std::vector<std::string> words(std::string_view list) {
    std::istringstream stream{std::string(list)};
    return {std::istream_iterator<std::string>(stream), {}};
  }

  void op(const std::vector<std::string_view>& parts) {
    const std::string estimator(trim(parts[0])), real(trim(parts[1]));
    backward_ = backward_ || real == "recv_v2";
    std::vector<std::string> reads = words(parts[2]);
    if (mentions_ == Mentions::AreUses) {
      for (std::string& name : words(parts[3])) reads.push_back(std::move(name));
    }
    const int name = text(real != "-" ? real : estimator != "-" ? estimator : "add_");
    std::string made, persists;
    const std::vector<std::string> outputs = words(parts[4]);
    for (const std::string& output : outputs) declare(output, made, persists);
    std::string line = "[0," + number(name) + (backward_ ? ",1" : ",2") + ",-1," +
                       number(static_cast<std::int64_t>(reads.size()));
    for (const std::string& read : reads) line += "," + number(ids_.at(read));
    line += ",0," + number(static_cast<std::int64_t>(outputs.size())) + made + "]\n";
    layer_.text += line + persists;
    layer_.estimator_names.push_back(estimator);
    layer_.real_names.push_back(real);
  }

  // Writes the alias line of one output, and adds it to what the op makes.
  void declare(std::string output, std::string& made, std::string& persists) {
    const bool persist = output.ends_with('!');
    if (persist) output.pop_back();
    const std::size_t colon = output.find(':');
    const std::size_t alias = output.find_first_of("@~");
    const int id = static_cast<int>(ids_.size());
    if (alias != std::string::npos) {
      layer_.text += std::string("[6,") + (output[alias] == '~' ? "0," : "1,") + number(id) + "," +
                     number(ids_.at(output.substr(alias + 1))) + "]\n";
    }
    ids_[output.substr(0, colon)] = id;
    const std::string size = output.substr(colon + 1, alias - colon - 1);
    made += "," + number(id) + "," + number(llama_layer_size(size)) + (backward_ ? ",5" : ",4");
    if (persist) persists += "[7," + number(id) + "]\n";
  }

  Mentions mentions_;
  LlamaLayer layer_;
  std::map<std::string, int> texts_, ids_;
  bool backward_ = false;
};

inline LlamaLayer llama_layer(Mentions mentions) {
  return LlamaLayerWriter(mentions).run(kLlamaLayerOps);
}

}  // namespace trainwright::testing
