// The oneTBB peer: the graphs of bench/dag/src/shape.rs as continue_nodes of a flow graph, which pass no data. Prints one
// JSON line, as `bench-dag graph` does.

#include <oneapi/tbb/flow_graph.h>
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/version.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <deque>
#include <map>
#include <string>
#include <vector>

namespace flow = oneapi::tbb::flow;
using node_t = flow::continue_node<flow::continue_msg>;

[[noreturn]] static void die(const std::string &reason) {
    std::fprintf(stderr, "tbb_peer: %s\n", reason.c_str());
    std::exit(EXIT_FAILURE);
}

// What every node does: counts itself on a counter of its thread's own.
struct alignas(128) counter_t {
    std::atomic<std::uint64_t> value{0};
};
static counter_t counters[256];
static std::atomic<unsigned> threads_seen{0};

static void count() {
    thread_local counter_t *mine = &counters[threads_seen.fetch_add(1) % 256];
    mine->value.store(mine->value.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

static const unsigned width = 1000;

// The inputs of a node, given to `add` one by one.
template <typename Add> static void inputs(const std::string &shape, unsigned node, unsigned nodes, Add add) {
    if (shape == "chain") {
        if (node > 0) add(node - 1);
    } else if (shape == "fan") {
        if (node == nodes - 1) {
            for (unsigned input = 1; input < node; input++) add(input);
        } else if (node > 0) {
            add(0);
        }
    } else if (shape == "tree") {
        if (node > 0) add((node - 1) / 2);
    } else if (shape == "layered") {
        if (node >= width)
            for (unsigned step : {0u, 1u, 7u}) add((node / width - 1) * width + (node % width + step) % width);
    } else {
        die("no such shape: " + shape);
    }
}

static double seconds(clockid_t clock) {
    timespec time{};
    clock_gettime(clock, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

int main(int argc, char **argv) {
    if (argc > 1 && std::string(argv[1]) == "version") {
        std::puts(TBB_runtime_version());
        return 0;
    }
    std::map<std::string, std::string> params{{"shape", "chain"}, {"nodes", "1000000"}, {"runs", "10"}, {"threads", "2"}};
    for (int i = 1; i < argc; i++) {
        std::string argument = argv[i];
        auto equals = argument.find('=');
        if (equals == std::string::npos) continue; // the topic and the arm
        auto found = params.find(argument.substr(0, equals));
        if (found == params.end()) die("no such parameter: " + argument);
        found->second = argument.substr(equals + 1);
    }
    const std::string shape = params["shape"];
    const auto nodes = static_cast<unsigned>(std::stoul(params["nodes"]));
    const auto runs = std::stoul(params["runs"]);
    oneapi::tbb::global_control control(
        oneapi::tbb::global_control::max_allowed_parallelism, std::stoul(params["threads"]));

    const double cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
    double start = seconds(CLOCK_MONOTONIC);
    flow::graph graph;
    flow::broadcast_node<flow::continue_msg> source(graph);
    std::deque<node_t> all;
    for (unsigned node = 0; node < nodes; node++) {
        all.emplace_back(graph, [](const flow::continue_msg &message) {
            count();
            return message;
        });
        unsigned taken = 0;
        inputs(shape, node, nodes, [&](unsigned input) {
            flow::make_edge(all[input], all[node]);
            taken++;
        });
        if (taken == 0) flow::make_edge(source, all[node]);
    }
    const double build = seconds(CLOCK_MONOTONIC) - start;

    std::vector<double> times;
    for (unsigned long run = 0; run <= runs; run++) {
        start = seconds(CLOCK_MONOTONIC);
        source.try_put(flow::continue_msg());
        graph.wait_for_all();
        if (run > 0) times.push_back(seconds(CLOCK_MONOTONIC) - start);
    }
    const double cpu_seconds = seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    std::uint64_t total = 0;
    for (auto &counter : counters) total += counter.value.load();
    if (total != nodes * (runs + 1)) die(std::to_string(total) + " nodes ran");
    std::sort(times.begin(), times.end());
    const double median = times.empty() ? 0 : times[times.size() / 2];
    std::printf(
        "{\"topic\":\"graph\",\"row\":\"%s\",\"impl\":\"oneTBB\",\"value\":%.3f,\"unit\":\"ns\",\"cpu_seconds\":%.6f,"
        "\"build\":%.3f}\n",
        shape.c_str(), median * 1e9 / nodes, cpu_seconds, build * 1e9 / nodes);
    // The graph is not torn down: its million nodes take longer for that than for all the rest.
    std::fflush(stdout);
    std::_Exit(0);
}
