// Collectives of the simulated accelerator. Each is a task in which gloo sends from and to the device's memory: on
// the current stream, or, where the caller does not want to wait (asyncOp), on a stream of the group's own that
// begins behind the current one. Work::wait() makes the current stream wait, not the host.
//
// gloo pairs the calls of several processes by their order, so each collective of a group begins after the one before
// it, whatever their streams. A caller that does not wait keeps its tensors until it does: afterwards their memory is
// used again by a stream that has waited.
#include <pybind11/chrono.h>
#include <signal.h>
#include <torch/csrc/utils/pybind.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <utility>

#include "core.hpp"
#include "faults.hpp"
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

/// What takes longer than a group lets it ends the process, as NCCL's watchdog does.
[[noreturn]] void time_out() {
  std::fprintf(stderr, "the simulated accelerator ends the process: a collective timed out\n");
  std::abort();
}

/// Waits for what gloo does, so long at most.
void finish(const intrusive_ptr<c10d::Work>& work, std::chrono::milliseconds patience) {
  try {
    work->wait(patience);
  } catch (const std::exception& error) {
    if (std::string(error.what()).find("imed out") == std::string::npos) throw;
    time_out();
  }
}

class Collectives : public c10d::Backend {
 public:
  Collectives(intrusive_ptr<c10d::Backend> gloo, std::chrono::milliseconds patience)
      : Backend(gloo->getRank(), gloo->getSize()), gloo_(std::move(gloo)), patience_(patience) {}

  const std::string getBackendName() const override { return "simulated"; }

  void setTimeout(std::chrono::milliseconds timeout) override { patience_ = timeout; }

  intrusive_ptr<c10d::Work> broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    auto task = [this, gloo = gloo_, views = views_of(tensors), options] {
      auto on_host = tensors_of(views);
      finish(gloo->broadcast(on_host, options), patience_);
    };
    return issue(c10d::OpType::BROADCAST, "broadcast", std::move(task), tensors, options.asyncOp);
  }

  intrusive_ptr<c10d::Work> allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    auto task = [this, gloo = gloo_, views = views_of(tensors), options] {
      auto on_host = tensors_of(views);
      finish(gloo->allreduce(on_host, options), patience_);
    };
    return issue(c10d::OpType::ALLREDUCE, "allreduce", std::move(task), tensors, options.asyncOp);
  }

  intrusive_ptr<c10d::Work> allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                                      const c10d::AllgatherOptions& options) override {
    TORCH_CHECK(outputs.size() == 1 && inputs.size() == 1, "allgather takes a tensor of each member");
    auto task = [this, gloo = gloo_, outs = views_of(outputs[0]), ins = views_of(inputs), options] {
      std::vector<Tensors> to{tensors_of(outs)};
      auto from = tensors_of(ins);
      finish(gloo->allgather(to, from, options), patience_);
    };
    return issue(c10d::OpType::ALLGATHER, "allgather", std::move(task), joined(outputs[0], inputs), options.asyncOp);
  }

  intrusive_ptr<c10d::Work> alltoall_base(Tensor& output, Tensor& input, std::vector<int64_t>& received,
                                          std::vector<int64_t>& sent, const c10d::AllToAllOptions& options) override {
    Tensors both{output, input};
    auto task = [this, views = views_of(both), received, sent] {
      const auto on_host = tensors_of(views);
      exchange(on_host[0], on_host[1], received, sent);
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

  /// Rows to and from each member, pair by pair: who has none for another does not wait for it, as with NCCL.
  void exchange(const Tensor& output, const Tensor& input, const std::vector<int64_t>& received,
                const std::vector<int64_t>& sent) {
    const auto even = [&](const Tensor& x) { return std::vector<int64_t>(getSize(), x.size(0) / getSize()); };
    const auto to = sent.empty() ? even(input) : sent, from = received.empty() ? even(output) : received;
    std::vector<intrusive_ptr<c10d::Work>> under_way;
    const int number = exchanges_++;
    const sim::Fault& fault = sim::fault();
    const bool begun = number >= fault.first;
    if (fault.is("dead") && fault.one() == getRank() && begun) kill(getpid(), SIGKILL);
    bool is_wrong = false;
    int64_t row_to = 0, row_from = 0;
    for (int peer = 0; peer < getSize(); ++peer) {
      Tensors out{output.narrow(0, row_from, from[peer])}, in{input.narrow(0, row_to, to[peer])};
      row_from += from[peer], row_to += to[peer];
      if (peer == getRank()) {
        out[0].copy_(in[0]);
        continue;
      }
      if (begun && fault.is_between(getRank(), peer) && from[peer] + to[peer] > 0) {
        if (fault.is("hang")) std::this_thread::sleep_for(patience_.load()), time_out();
        is_wrong = is_wrong || (fault.is("wrong") && from[peer] > 0);
      }
      if (from[peer] > 0) under_way.push_back(gloo_->recv(out, peer, TAG));
      if (to[peer] > 0) under_way.push_back(gloo_->send(in, peer, TAG));
    }
    for (const auto& work : under_way) finish(work, patience_);
    if (is_wrong) output.add_(1);
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

  static constexpr int TAG = 1;
  const intrusive_ptr<c10d::Backend> gloo_;
  std::atomic<std::chrono::milliseconds> patience_;
  int exchanges_ = 0;
  sim::Stream* own_ = nullptr;
  sim::Event last_;
};

intrusive_ptr<c10d::Backend> collectives_by(intrusive_ptr<c10d::Backend> gloo, std::chrono::milliseconds patience) {
  return c10::make_intrusive<Collectives>(std::move(gloo), patience);
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  py::class_<Collectives, c10d::Backend, intrusive_ptr<Collectives>>(m, "Collectives")
      .def("_set_default_timeout", &Collectives::setTimeout);  // as that of NCCL is called

  m.def("collectives_by", collectives_by, py::arg("gloo"), py::arg("patience"));
}
