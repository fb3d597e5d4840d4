// Random draws: each device has a generator of the CPU's kind, and so the CPU's numbers; where others are asked for
// (numbers.cpp), those of another seed.
//
// A task draws when it runs, perhaps long after it was issued. So seeding makes a new generator and leaves the old
// one to the tasks that were issued before: each call's task keeps the generator of its time. Tasks of one stream
// draw in the order in which they were issued, as on a real device.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Generator.h>

#include <mutex>
#include <vector>

#include "../glue.hpp"

namespace sim {
namespace {

struct Generators {
  std::mutex mutex;
  std::vector<at::Generator> of_devices;
};

constexpr uint64_t OTHER = 0x632be59bd9b4e019ULL;  // makes another seed of each

/// The CPU's generator, of the seed that it is given or of another one.
class Generator : public at::CPUGeneratorImpl {
 public:
  explicit Generator(uint64_t seed) { set_current_seed(seed); }
  void set_current_seed(uint64_t seed) override {
    given_ = seed;
    CPUGeneratorImpl::set_current_seed(other_numbers() ? seed ^ OTHER : seed);
  }
  uint64_t current_seed() const override { return given_; }

 private:
  uint64_t given_ = 0;
};

at::Generator seeded(uint64_t seed) { return at::make_generator<Generator>(seed); }

Generators& generators() {
  static auto* const all = [] {
    auto* made = new Generators;
    for (int device = 0; device < device_count(); ++device)
      made->of_devices.push_back(seeded(c10::default_rng_seed_val));
    return made;
  }();
  return *all;
}

}  // namespace

void manual_seed(uint64_t seed) {
  Generators& all = generators();
  const std::lock_guard lock(all.mutex);
  for (at::Generator& generator : all.of_devices) generator = seeded(seed);
}

at::Generator generator(int device) {
  Generators& all = generators();
  const std::lock_guard lock(all.mutex);
  return all.of_devices.at(static_cast<size_t>(device));
}

at::Generator new_generator() { return seeded(c10::default_rng_seed_val); }

at::Tensor random_state(int64_t device) {
  count_wait("random_state", false);
  drain(static_cast<int>(device));
  return generator(static_cast<int>(device)).get_state();
}

void set_random_state(int64_t device, const at::Tensor& state) {
  Generators& all = generators();
  at::Generator generator = seeded(0);
  generator.set_state(state);
  const std::lock_guard lock(all.mutex);
  all.of_devices.at(static_cast<size_t>(device)) = generator;
}

}  // namespace sim
