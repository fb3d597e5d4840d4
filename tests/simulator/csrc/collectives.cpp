// Collectives of the simulated accelerator. Each is a task in which gloo sends from and to the device's memory: on
// the current stream, or, where the caller does not want to wait (asyncOp), on a stream of the group's own that
// begins behind the current one. Work::wait() makes the current stream wait, not the host.
//
// gloo pairs the calls of several processes by their order, so each collective of a group begins after the one before
// it, whatever their streams. A caller that does not wait keeps its tensors until it does: afterwards their memory is
// used again by a stream that has waited.
#include <torch/csrc/utils/pybind.h>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <utility>

#include "core.hpp"
#include "glue.hpp"

namespace {

using at::Tensor;
using c10::intrusive_ptr;
using Tensors = std::vector<Tensor>;

class Collective : public c10d::Work {
 public:
  Collective(c10d::OpType kind, sim::Event over, int device, Tensors kept)
      : Work(-1, kind), over_(std::move(over)), device_(device), kept_(std::move(kept)) {}

  bool isCompleted() override { return over_.query(); }
  bool isSuccess() const override { return true; }  // a failure breaks the device, which says so

  bool wait(std::chrono::milliseconds /*timeout*/) override {
    synchronize();
    return true;
  }

  void synchronize() override {
    sim::current_stream(device_).wait_for(over_);
    kept_.clear();
  }

 private:
  sim::Event over_;
  const int device_;
  Tensors kept_;
};

class Collectives : public c10d::Backend {
 public:
  explicit Collectives(intrusive_ptr<c10d::Backend> gloo)
      : Backend(gloo->getRank(), gloo->getSize()), gloo_(std::move(gloo)) {}

  const std::string getBackendName() const override { return "simulated"; }

  intrusive_ptr<c10d::Work> broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    auto task = [gloo = gloo_, views = views_of(tensors), options] {
      auto on_host = tensors_of(views);
      gloo->broadcast(on_host, options)->wait();
    };
    return issue(c10d::OpType::BROADCAST, "broadcast", std::move(task), tensors, options.asyncOp);
  }

  intrusive_ptr<c10d::Work> allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    auto task = [gloo = gloo_, views = views_of(tensors), options] {
      auto on_host = tensors_of(views);
      gloo->allreduce(on_host, options)->wait();
    };
    return issue(c10d::OpType::ALLREDUCE, "allreduce", std::move(task), tensors, options.asyncOp);
  }

  intrusive_ptr<c10d::Work> allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                                      const c10d::AllgatherOptions& options) override {
    TORCH_CHECK(outputs.size() == 1 && inputs.size() == 1, "allgather takes a tensor of each member");
    auto task = [gloo = gloo_, outs = views_of(outputs[0]), ins = views_of(inputs), options] {
      std::vector<Tensors> to{tensors_of(outs)};
      auto from = tensors_of(ins);
      gloo->allgather(to, from, options)->wait();
    };
    return issue(c10d::OpType::ALLGATHER, "allgather", std::move(task), joined(outputs[0], inputs), options.asyncOp);
  }

  intrusive_ptr<c10d::Work> alltoall_base(Tensor& output, Tensor& input, std::vector<int64_t>& received,
                                          std::vector<int64_t>& sent, const c10d::AllToAllOptions& options) override {
    Tensors both{output, input};
    auto task = [gloo = gloo_, views = views_of(both), received, sent, options]() mutable {
      auto on_host = tensors_of(views);
      gloo->alltoall_base(on_host[0], on_host[1], received, sent, options)->wait();
    };
    return issue(c10d::OpType::ALLTOALL_BASE, "alltoall", std::move(task), both, options.asyncOp);
  }

  /// The host waits, for the current stream and then for all members.
  intrusive_ptr<c10d::Work> barrier(const c10d::BarrierOptions& options) override {
    sim::count_wait("barrier", false);
    const int device = sim::current_device();
    sim::current_stream(device).drain();
    if (last_.stream != nullptr) last_.wait();
    sim::check(device);
    return gloo_->barrier(options);
  }

 private:
  static std::vector<sim::View> views_of(const Tensors& tensors) {
    std::vector<sim::View> views;
    for (const Tensor& tensor : tensors) {
      TORCH_CHECK(sim::is_on_device(tensor), "a collective of the device takes its tensors, not one on ",
                  tensor.device());
      TORCH_CHECK(tensor.device() == tensors[0].device(), "tensors of a collective are on one device");
      TORCH_CHECK(tensor.is_contiguous(), "a collective takes contiguous tensors");
      views.emplace_back(tensor);
    }
    return views;
  }

  static Tensors tensors_of(const std::vector<sim::View>& views) {
    Tensors tensors;
    for (const auto& view : views) tensors.push_back(view.on_host());
    return tensors;
  }

  static Tensors joined(Tensors some, const Tensors& others) {
    some.insert(some.end(), others.begin(), others.end());
    return some;
  }

  intrusive_ptr<c10d::Work> issue(c10d::OpType kind, const char* name, sim::Task task, const Tensors& tensors,
                                  bool apart) {
    const int device = tensors[0].device().index();
    sim::Stream& current = sim::current_stream(device);
    sim::Stream& stream = apart ? own_stream(device) : current;
    if (apart) stream.wait_for(current.record());
    if (last_.stream != nullptr && last_.stream != &stream) stream.wait_for(last_);
    sim::count_call(name);
    stream.enqueue(name, std::move(task));
    last_ = stream.record();
    return c10::make_intrusive<Collective>(kind, last_, device, apart ? tensors : Tensors{});
  }

  sim::Stream& own_stream(int device) {
    if (own_ == nullptr || own_->device != device) own_ = &sim::next_stream(device);
    return *own_;
  }

  const intrusive_ptr<c10d::Backend> gloo_;
  sim::Stream* own_ = nullptr;
  sim::Event last_;
};

intrusive_ptr<c10d::Backend> collectives_by(intrusive_ptr<c10d::Backend> gloo) {
  return c10::make_intrusive<Collectives>(std::move(gloo));
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("collectives_by", collectives_by, py::arg("gloo")); }
