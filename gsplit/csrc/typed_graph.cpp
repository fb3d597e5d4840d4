#include "typed_graph.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace gsplit {
namespace {

/// A name in front of what is wrong; nothing where there is no name.
std::string about(const char* what, const std::string& name) {
  return name.empty() ? std::string() : std::string(what) + " " + name + ": ";
}

void check_type(const VertexType& type, size_t num_offsets) {
  const auto& offsets = type.offsets;
  const int64_t n = offsets.empty() ? 0 : offsets.back();
  if (offsets.size() < 2 || offsets.front() != 0 || !std::is_sorted(offsets.begin(), offsets.end()))
    throw std::invalid_argument(about("type", type.name) +
                                "offsets must ascend from 0 to the number of vertices, and be two or more");
  if (offsets.size() != num_offsets)
    throw std::invalid_argument(about("type", type.name) + "it has " + std::to_string(offsets.size() - 1) +
                                " parts, and the first type " + std::to_string(num_offsets - 1));
  if (!type.global_ids.empty() && static_cast<int64_t>(type.global_ids.size()) != n)
    throw std::invalid_argument(about("type", type.name) + "global_ids must have one entry a vertex, " +
                                std::to_string(n) + " and not " + std::to_string(type.global_ids.size()));
}

}  // namespace

template <class Index>
TypedGraph<Index> checked(TypedGraph<Index> graph) {
  if (graph.types.empty() || graph.relations.empty())
    throw std::invalid_argument("a graph needs at least one type and one relation");
  for (const VertexType& type : graph.types) check_type(type, graph.types[0].offsets.size());
  for (Relation<Index>& relation : graph.relations) {
    const std::string what = about("relation", relation.name);
    for (const size_t type : {relation.source, relation.destination})
      if (type >= graph.types.size())
        throw std::invalid_argument(what + "there is no type number " + std::to_string(type) + "; there are " +
                                    std::to_string(graph.types.size()));
    if (relation.graph.indptr.empty()) throw std::invalid_argument(what + "indptr is empty");
    const VertexType& type = graph.types[relation.destination];
    const auto n = static_cast<int64_t>(relation.graph.indptr.size()) - 1;
    if (type.offsets.back() != n) {
      if (type.name.empty())
        throw std::invalid_argument("offsets must ascend from 0 to the number of vertices, " + std::to_string(n));
      throw std::invalid_argument(what + "indptr has " + std::to_string(n) + " destinations, and type " + type.name +
                                  " has " + std::to_string(type.offsets.back()) + " vertices");
    }
    relation.graph.global_ids = type.global_ids;
  }
  return graph;
}

std::string vertex_named(int64_t vertex, const VertexType& type) {
  return "vertex " + std::to_string(vertex) + (type.name.empty() ? "" : " of type " + type.name);
}

template TypedGraph<int32_t> checked(TypedGraph<int32_t>);
template TypedGraph<int64_t> checked(TypedGraph<int64_t>);

}  // namespace gsplit
