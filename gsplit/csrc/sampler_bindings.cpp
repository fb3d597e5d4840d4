// Python's view of the sampler: arrays by type and relation become a graph, and mini-batches segments.

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings.hpp"
#include "pair_block.hpp"
#include "sampler.hpp"

namespace nb = nanobind;

namespace gsplit::python {
namespace {

/// Keeps the arrays alive that the sampler looks into.
template <class Index>
struct BoundSampler {
  using BoundType = std::tuple<std::string, Array<int64_t>, std::vector<int64_t>>;  // name, global ids, offsets
  using BoundRelation = std::tuple<std::string, size_t, size_t, Array<int64_t>, Array<Index>>;

  std::vector<BoundType> types;
  std::vector<BoundRelation> relations;  // name, source and destination type, indptr, indices
  Sampler<Index> sampler;
  std::vector<Ends> ends;  // [R]
  std::optional<Array<float>> edge_weight;
  MiniBatchId id;
  SegmentContents contents;
  std::vector<PairSplit> pairs;  // [P] of the last mini-batch; empty where it has none
  bool sampled = false;          // the last call gave a whole mini-batch

  BoundSampler(std::vector<BoundRelation> relations_, std::vector<BoundType> types_, int64_t memory, int threads,
               bool partial_sums)
      : types(std::move(types_)), relations(std::move(relations_)),
        sampler(graph_of(relations, types), memory, threads, partial_sums) {
    for (const auto& relation : sampler.graph().relations) ends.push_back({relation.source, relation.destination});
  }

  static TypedGraph<Index> graph_of(const std::vector<BoundRelation>& relations,
                                    const std::vector<BoundType>& types) {
    TypedGraph<Index> graph;
    for (const auto& [name, global_ids, offsets] : types) graph.types.push_back({name, span_of(global_ids), offsets});
    for (const auto& [name, source, destination, indptr, indices] : relations)
      graph.relations.push_back({name, source, destination, {span_of(indptr), span_of(indices), {}}});
    return graph;
  }

  bool sample(Array<int64_t> targets, size_t type, Array<int64_t> fan_outs, uint64_t seed, int64_t epoch,
              int64_t batch, int64_t micro, int64_t num_targets, bool with_edge_ids, int64_t max_edges) {
    nb::gil_scoped_release unlocked;
    begin({epoch, batch, num_targets, micro, static_cast<int64_t>(type)}, {.edge_ids = with_edge_ids});
    sampled = sampler.sample(span_of(targets), type, span_of(fan_outs), key(seed), with_edge_ids, max_edges);
    return sampled;
  }

  void exclude(Array<int64_t> destinations, Array<int64_t> sources) {
    nb::gil_scoped_release unlocked;
    sampler.exclude(span_of(destinations), span_of(sources));
  }

  void use_pool(std::optional<Array<float>> weights, const std::string& importance) {
    sampler.use_pool(weights ? span_of(*weights) : std::span<const float>(), importance_named(importance));
    edge_weight = std::move(weights);  // the same memory, which lives from now on
  }

  void sample_pools(Array<int64_t> targets, Array<int64_t> sizes, uint64_t seed, int64_t epoch, int64_t batch,
                    int64_t micro, int64_t num_targets, bool exponential, bool with_edge_ids) {
    nb::gil_scoped_release unlocked;
    begin({epoch, batch, num_targets, micro}, {.edge_ids = with_edge_ids, .scales = true});
    sampler.sample_pools(span_of(targets), span_of(sizes), key(seed),
                         exponential ? Race::exponential : Race::priority, with_edge_ids);
    sampled = true;
  }

  void sample_inside(Array<int64_t> targets, std::vector<Array<int64_t>> sets,
                     std::optional<std::vector<Array<float>>> scales, std::optional<double> scale, int64_t epoch,
                     int64_t batch, int64_t micro, int64_t num_targets, bool with_edge_ids) {
    nb::gil_scoped_release unlocked;
    const bool scaled = scales || scale;
    if (sets.empty() || (scales && scales->size() != sets.size()))
      throw nb::value_error("there must be at least one set, and scales for each set or for none");
    begin({epoch, batch, num_targets, micro}, {.edge_ids = with_edge_ids, .scales = scaled});
    std::vector<typename Sampler<Index>::Sources> sources;
    for (size_t i = 0; i < sets.size(); ++i)
      sources.push_back({span_of(sets[i]), scales ? span_of((*scales)[i]) : std::span<const float>(),
                         static_cast<float>(scale.value_or(1.0))});
    sampler.sample_inside(span_of(targets), sources, with_edge_ids, scaled);
    sampled = true;
  }

  void sample_subgraph(Array<int64_t> vertices, int64_t targets, int64_t layers, std::optional<Array<float>> scales,
                       std::optional<double> scale, int64_t epoch, int64_t batch, int64_t micro, int64_t num_targets,
                       bool with_edge_ids) {
    nb::gil_scoped_release unlocked;
    const bool scaled = scales || scale;
    if (targets < 0 || layers < 1)
      throw nb::value_error("a subgraph needs at least one layer, and no fewer targets than 0");
    begin({epoch, batch, num_targets, micro},
          {.edge_ids = with_edge_ids, .scales = scaled, .sure_loops = scaled, .drawn_targets = scales.has_value()});
    sampler.sample_subgraph({span_of(vertices), scales ? span_of(*scales) : std::span<const float>(),
                             static_cast<float>(scale.value_or(1.0))},
                            static_cast<size_t>(targets), static_cast<size_t>(layers), with_edge_ids, scaled);
    sampled = true;
  }

  void begin(MiniBatchId of_batch, SegmentContents carried) {
    id = of_batch;
    contents = carried;
    pairs.clear();
    sampled = false;
  }

  void put_pairs(Array<int64_t> targets, Array<int32_t> sources, Array<int32_t> destinations, Array<int32_t> own,
                 Array<int32_t> shared, Array<uint8_t> masked, Array<int64_t> rows, Array<float> own_log_q,
                 Array<float> shared_log_q, int64_t chunk, int64_t own_at_source, int64_t shared_at_source,
                 int64_t groups_of_all, int64_t negatives_of_all, bool turned, bool apart) {
    checked_rank(0);
    if (types.size() > 1 || relations.size() > 1)
      throw nb::value_error("pairs are scored on graphs of one type and one relation alone");
    nb::gil_scoped_release unlocked;
    pairs = split_pairs(sampler.splits(), std::get<2>(types[0]), span_of(targets),
                        {span_of(sources), span_of(destinations), span_of(own), span_of(shared), span_of(masked),
                         span_of(rows), span_of(own_log_q), span_of(shared_log_q), chunk, own_at_source,
                         shared_at_source, groups_of_all, negatives_of_all, turned, apart});
    for (size_t part = 0; part < pairs.size(); ++part)
      sampler.add_excluded(part, pairs[part].excluded_rows, pairs[part].excluded_ids);
  }

  DrawKey key(uint64_t seed) const {
    return {seed, static_cast<uint64_t>(id.epoch), static_cast<uint64_t>(id.batch), static_cast<uint64_t>(id.micro)};
  }

  int checked_rank(int64_t rank) const {
    if (!sampled) throw nb::value_error("there is no mini-batch: sample one first");
    if (rank < 0 || rank >= static_cast<int64_t>(sampler.splits().size()))
      throw nb::value_error("no such split in the last mini-batch");
    return static_cast<int>(rank);
  }

  int64_t segment_bytes(int64_t rank) const { return gsplit::segment_bytes(mini_batch(), checked_rank(rank)); }

  void write_segment(int64_t rank, Writable<uint8_t> out) const {
    if (static_cast<int64_t>(out.size()) < segment_bytes(rank))
      throw nb::value_error("the buffer is smaller than the segment");
    nb::gil_scoped_release unlocked;
    gsplit::write_segment(mini_batch(), static_cast<int>(rank), out.data());
  }

  SplitMiniBatch mini_batch() const { return {sampler.splits(), ends, pairs, contents, id}; }
};

template <class Index>
void bind_sampler(nb::module_& m, const char* name) {
  using Self = BoundSampler<Index>;
  nb::class_<Self>(m, name, "Samples mini-batches and splits them; see gsplit.sampling.sampler.")
      .def(nb::init<std::vector<typename Self::BoundRelation>, std::vector<typename Self::BoundType>, int64_t, int,
                    bool>(),
           nb::arg("relations"), nb::arg("types"), nb::arg("memory"), nb::arg("threads"), nb::arg("partial_sums"))
      .def("sample", &Self::sample, nb::arg("targets"), nb::arg("type"), nb::arg("fan_outs"), nb::arg("seed"),
           nb::arg("epoch"), nb::arg("batch"), nb::arg("micro"), nb::arg("num_targets"), nb::arg("edge_ids"),
           nb::arg("max_edges"))
      .def("exclude", &Self::exclude, nb::arg("destinations"), nb::arg("sources"))
      .def_prop_ro("excluded_edges", [](const Self& self) { return self.sampler.excluded_edges(); })
      .def("use_pool", &Self::use_pool, nb::arg("edge_weight").none(), nb::arg("importance"))
      .def("sample_pools", &Self::sample_pools, nb::arg("targets"), nb::arg("sizes"), nb::arg("seed"),
           nb::arg("epoch"), nb::arg("batch"), nb::arg("micro"), nb::arg("num_targets"), nb::arg("exponential"),
           nb::arg("edge_ids"))
      .def("sample_inside", &Self::sample_inside, nb::arg("targets"), nb::arg("sets"), nb::arg("scales").none(),
           nb::arg("scale").none(), nb::arg("epoch"), nb::arg("batch"), nb::arg("micro"), nb::arg("num_targets"),
           nb::arg("edge_ids"))
      .def("sample_subgraph", &Self::sample_subgraph, nb::arg("vertices"), nb::arg("targets"), nb::arg("layers"),
           nb::arg("scales").none(), nb::arg("scale").none(), nb::arg("epoch"), nb::arg("batch"), nb::arg("micro"),
           nb::arg("num_targets"), nb::arg("edge_ids"))
      .def("number_by_id", [](Self& self) { self.sampler.number_by_id(); })
      .def("put_pairs", &Self::put_pairs, nb::arg("targets"), nb::arg("sources"), nb::arg("destinations"),
           nb::arg("own"), nb::arg("shared"), nb::arg("masked"), nb::arg("rows"), nb::arg("own_log_q"),
           nb::arg("shared_log_q"), nb::arg("chunk"), nb::arg("own_at_source"), nb::arg("shared_at_source"),
           nb::arg("groups_of_all"), nb::arg("negatives_of_all"), nb::arg("turned"), nb::arg("apart"))
      .def("segment_bytes", &Self::segment_bytes, nb::arg("rank"))
      .def("write_segment", &Self::write_segment, nb::arg("rank"), nb::arg("out"));
}

}  // namespace

void bind_samplers(nb::module_& m) {
  bind_sampler<int32_t>(m, "Sampler32");
  bind_sampler<int64_t>(m, "Sampler64");
}

}  // namespace gsplit::python
