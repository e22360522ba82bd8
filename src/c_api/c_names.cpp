// SPDX-License-Identifier: Apache-2.0
#include "c_api/c_names.h"

#include <algorithm>
#include <iterator>

namespace reprise::c_api {
namespace {

struct Name {
  std::string_view in_cpp;
  std::string_view in_c;
};

// The first that fits counts: phrases stand before the names in them.
constexpr Name names[] = {
    // Phrases of what C has in another way, or has not.
    {"Make another stream current with StreamGuard, or use capture() or the scope graph, which have one",
     "Pass another stream, or null to reprise_graph_capture()"},
    {"capture(), the scope graph, or capture_begin()", "reprise_graph_capture(), or reprise_graph_capture_begin()"},
    {"capture() or the scope graph", "reprise_graph_capture()"},
    {"Make it with CUDAGraph(KeepGraph::yes), or capture it", "Capture it"},
    {", or call record_allocation_stacks(true) first, for memory of CachingAllocator",
     ", for memory of reprise_allocate()"},
    {"GraphOptions::report = ReportDetail::full", "reprise_capture_options::full_report"},
    {"current_stream()", "the stream of the capture"},
    // Options.
    {"GraphOptions::allow_empty", "reprise_capture_options::allow_empty"},
    {"GraphOptions::capture_error_mode", "reprise_capture_options::mode"},
    {"GraphOptions::check_input_liveness", "reprise_capture_options::check_inputs"},
    {"GraphOptions::inputs.retain", "reprise_capture_options::retain_inputs"},
    {"GraphOptions::keep_graph", "reprise_capture_options::keep_template"},
    {"GraphOptions::pool", "reprise_capture_options::pool"},
    {"GraphOptions::warmup", "reprise_capture_options::warmup"},
    {"inputs.retain", "retain_inputs"},
    {"CaptureMode::global", "REPRISE_CAPTURE_GLOBAL"},
    {"CaptureMode::relaxed", "REPRISE_CAPTURE_RELAXED"},
    {"CaptureMode::thread", "REPRISE_CAPTURE_THREAD"},
    {"KeepGraph::no", "keep_template = 0"},
    {"KeepGraph::yes", "keep_template = 1"},
    // Functions.
    {"CUDAGraph::capture_abandon", "reprise_graph_capture_abandon"},
    {"CUDAGraph::capture_begin", "reprise_graph_capture_begin"},
    {"CUDAGraph::capture_end", "reprise_graph_capture_end"},
    {"CUDAGraph::debug_dump", "reprise_graph_dump_dot"},
    {"CUDAGraph::instantiate", "reprise_graph_instantiate"},
    {"CUDAGraph::memory", "reprise_graph_memory_of"},
    {"CUDAGraph::node", "reprise_graph_set_arg"},
    {"CUDAGraph::node_count", "reprise_graph_node_count"},
    {"CUDAGraph::nodes", "reprise_graph_node_text"},
    {"CUDAGraph::pool", "reprise_graph_pool"},
    {"CUDAGraph::replay", "reprise_graph_replay"},
    {"CUDAGraph::reset", "reprise_graph_reset"},
    {"CUDAGraph::update", "reprise_graph_update"},
    {"CUDAGraph::upload", "reprise_graph_upload"},
    {"GraphNode::set_arg", "reprise_graph_set_arg"},
    {"capture_abandon()", "reprise_graph_capture_abandon()"},
    {"capture_begin()", "reprise_graph_capture_begin()"},
    {"capture_end()", "reprise_graph_capture_end()"},
    {"capture()", "reprise_graph_capture()"},
    {"instantiate()", "reprise_graph_instantiate()"},
    {"reset()", "reprise_graph_reset()"},
    {"graph_pool_handle()", "reprise_pool_create()"},
    {"launch_host()", "reprise_launch_host()"},
    {"allocate()", "reprise_allocate()"},
    {"deallocate()", "reprise_free()"},
    {"record_stream()", "reprise_record_stream()"},
    {"CachingAllocator::allocate", "reprise_allocate"},
    {"CachingAllocator::empty_cache", "reprise_empty_cache"},
    {"CachingAllocator::record_stream", "reprise_record_stream"},
    {"Device::memory_info", "reprise_device_memory"},
    {"Device::synchronize", "reprise_device_synchronize"},
    {"StreamRef::capture_status", "reprise_stream_is_capturing"},
    {"StreamRef::query", "reprise_stream_query"},
    {"StreamRef::synchronize", "reprise_stream_synchronize"},
    {"StreamRef::wait", "reprise_stream_wait"},
    {"CUDAGraph", "reprise_graph"},
};

// Functions whose names are words as well, and so are recognised at the beginning of an error's text alone.
constexpr Name words[] = {
    {"capture", "reprise_graph_capture"},   {"copy_async", "reprise_copy"},
    {"fill_async", "reprise_fill"},         {"graph_memory", "reprise_graph_memory_of"},
    {"launch_host", "reprise_launch_host"}, {"Stream", "reprise_stream_create"},
};

bool of_a_name(char c) {
  return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool stands_alone(std::string_view text, std::size_t begin, std::size_t size) {
  const std::size_t end = begin + size;
  return (begin == 0 || !of_a_name(text[begin]) || (!of_a_name(text[begin - 1]) && text[begin - 1] != ':')) &&
         (end == text.size() || !of_a_name(text[end]) || !of_a_name(text[end - 1])) &&
         text.substr(end).substr(0, 2) != "::";
}

template <std::size_t count>
const Name* name_at(const Name (&known)[count], std::string_view text, std::size_t at) {
  const Name* const found = std::find_if(std::begin(known), std::end(known), [&](const Name& name) {
    return text.substr(at).starts_with(name.in_cpp) && stands_alone(text, at, name.in_cpp.size());
  });
  return found != std::end(known) ? found : nullptr;
}

}  // namespace

std::string in_c_names(std::string_view text) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    if (const Name* const name = name_at(names, text, at)) {
      result += name->in_c;
      at += name->in_cpp.size();
    } else {
      result += text[at++];
    }
  }
  return result;
}

std::string error_in_c_names(std::string_view call, std::string_view text) {
  const Name* const word = name_at(words, text, 0);
  std::string result =
      word == nullptr ? in_c_names(text) : std::string(word->in_c) + in_c_names(text.substr(word->in_cpp.size()));
  const bool begins_with_call = result.starts_with(call) && stands_alone(result, 0, call.size());
  return begins_with_call ? result : std::string(call) + ": " + result;
}

}  // namespace reprise::c_api
