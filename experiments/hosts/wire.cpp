// A wire between hosts that are network namespaces of this machine, for kernels without netem: a TAP device in each,
// and this process between them, which passes a frame on after a delay, at a rate, or not at all.
//
//   wire DELAY_US MBIT_PER_S FD...     descriptors of the hosts' TAP devices, in their order
//
// Hosts have the hardware addresses 02:00:00:00:00:01, :02, ... A line on standard input cuts the wire of a host, or
// mends it: "cut 1", "heal 1"; each is answered by a line. Its end ends the process.
#include <poll.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <vector>

namespace {

constexpr int kMostBytes = 10000;        // of a frame
constexpr size_t kMostWaiting = 4096;    // frames on their way to a host; more are lost, as in a switch
constexpr long kNanoseconds = 1000000000;

struct Frame {
  long due_ns;
  std::vector<unsigned char> bytes;
};

struct Host {
  int fd;
  bool cut = false;
  long free_ns = 0;  // when what it has sent before is through
  std::deque<Frame> arriving;
};

long now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * kNanoseconds + t.tv_nsec;
}

// False where standard input has ended.
bool obey(std::vector<Host>& hosts) {
  char line[64];
  const ssize_t length = read(STDIN_FILENO, line, sizeof line - 1);
  if (length <= 0) return false;
  line[length] = 0;
  char word[8];
  size_t host;
  if (sscanf(line, "%7s %zu", word, &host) == 2 && host >= 1 && host <= hosts.size())
    hosts[host - 1].cut = !strcmp(word, "cut");
  puts(word);
  return fflush(stdout) == 0;
}

void take(std::vector<Host>& hosts, size_t from, long delay_ns, long mbit_per_s) {
  unsigned char bytes[kMostBytes];
  for (int turn = 0; turn < 64; ++turn) {
    const ssize_t length = read(hosts[from].fd, bytes, sizeof bytes);
    if (length <= 0) return;
    if (hosts[from].cut) continue;
    long& free_ns = hosts[from].free_ns;
    free_ns = std::max(free_ns, now_ns()) + (mbit_per_s ? length * 8000 / mbit_per_s : 0);
    for (size_t to = 0; to < hosts.size(); ++to) {
      const bool is_meant = (bytes[0] & 1) || bytes[5] == to + 1;  // a broadcast, or by its address
      if (to != from && is_meant && hosts[to].arriving.size() < kMostWaiting)
        hosts[to].arriving.push_back({free_ns + delay_ns, {bytes, bytes + length}});
    }
  }
}

// Passes on what is due; nanoseconds until more is, -1 for nothing.
long give(std::vector<Host>& hosts) {
  long soonest_ns = -1;
  const long now = now_ns();
  for (Host& host : hosts) {
    auto& arriving = host.arriving;
    for (; !arriving.empty() && arriving.front().due_ns <= now; arriving.pop_front())
      if (!host.cut && write(host.fd, arriving.front().bytes.data(), arriving.front().bytes.size()) < 0 &&
          errno != EIO && errno != EAGAIN)  // EIO: the device is down
        return perror("wire"), exit(1), 0;
    if (!arriving.empty()) {
      const long left_ns = arriving.front().due_ns - now;
      soonest_ns = soonest_ns < 0 ? left_ns : std::min(soonest_ns, left_ns);
    }
  }
  return soonest_ns;
}

}  // namespace

int main(int count, char** arguments) {
  prctl(PR_SET_TIMERSLACK, 1000);
  const long delay_ns = atol(arguments[1]) * 1000, mbit_per_s = atol(arguments[2]);
  std::vector<Host> hosts;
  for (int at = 3; at < count; ++at) hosts.push_back({atoi(arguments[at])});
  std::vector<pollfd> polled{{STDIN_FILENO, POLLIN, 0}};
  for (const Host& host : hosts) polled.push_back({host.fd, POLLIN, 0});
  while (true) {
    const long soonest_ns = give(hosts);
    const timespec wait{soonest_ns / kNanoseconds, soonest_ns % kNanoseconds};
    if (ppoll(polled.data(), polled.size(), soonest_ns < 0 ? nullptr : &wait, nullptr) < 0) continue;
    if (polled[0].revents && !obey(hosts)) return 0;
    for (size_t from = 0; from < hosts.size(); ++from)
      if (polled[from + 1].revents & POLLIN) take(hosts, from, delay_ns, mbit_per_s);
  }
}
