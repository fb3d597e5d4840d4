// A graph of T types of vertices and R relations between them. What has no types is the case T = R = 1.
//
// Each type has layout ids of its own, 0 .. N - 1, and part p owns those from offsets[p] to offsets[p + 1]: its cell.
// Each relation has in-neighbours of its own, by the ids of its destination type; they are ids of its source type.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace gsplit {

/// Views of arrays that outlive the sampler.
template <class Index>
struct GraphView {
  std::span<const int64_t> indptr;      // [N + 1]
  std::span<const Index> indices;       // [E]
  std::span<const int64_t> global_ids;  // [N] of the destinations, or empty where layout ids are the global ones
};

struct VertexType {
  std::string name;                     // empty where there is one type, which no message has to tell from others
  std::span<const int64_t> global_ids;  // [N], or empty where layout ids are the global ones
  std::vector<int64_t> offsets;         // [P + 1], ascending from 0 to N
};

template <class Index>
struct Relation {
  std::string name;  // empty where there is one relation
  size_t source = 0;
  size_t destination = 0;
  GraphView<Index> graph;
};

template <class Index>
struct TypedGraph {
  std::vector<VertexType> types;
  std::vector<Relation<Index>> relations;

  size_t parts() const { return types[0].offsets.size() - 1; }
};

/// Gives relations the global ids of their destinations. Throws std::invalid_argument, with the name of the type or
/// relation, where arrays, types and offsets do not fit together.
template <class Index>
TypedGraph<Index> checked(TypedGraph<Index> graph);

/// The part that owns a vertex of a type with these offsets.
inline size_t owner_in(const std::vector<int64_t>& offsets, int64_t vertex) {
  const size_t parts = offsets.size() - 1;
  if (parts > 16) return std::upper_bound(offsets.begin() + 1, offsets.end() - 1, vertex) - offsets.begin() - 1;
  size_t part = 0;
  for (size_t i = 1; i < parts; ++i) part += vertex >= offsets[i];
  return part;
}

/// "vertex 7", or "vertex 7 of type paper" where types have names.
std::string vertex_named(int64_t vertex, const VertexType& type);

}  // namespace gsplit
