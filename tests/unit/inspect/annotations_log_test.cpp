// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "inspect/annotations/annotation_log.h"

// Which node belongs to which scope, found from logs that are made up. Nodes are numbers.

namespace reprise::inspect::test {
namespace {

constexpr std::size_t end = AnnotationLog::no_thread;

GraphNodeHandle node(std::size_t number) {
  return reinterpret_cast<GraphNodeHandle>(static_cast<std::uintptr_t>(0x1000 + 16 * number));
}

// What happened, step by step; and the annotation of each node, as a character: `a` is the first one, `-` is none.
class Story {
 public:
  Story& made(std::size_t nodes) {
    for (std::size_t i = 0; i < nodes; ++i) log_.nodes.push_back(node(log_.nodes.size()));
    return *this;
  }
  /// The thread says `what` from now on. Its stream depends on `tails`.
  Story& says(std::size_t thread, char what, const std::vector<std::size_t>& tails = {}) {
    log_.boundaries.push_back({thread, log_.nodes.size(), number_of(what), {}});
    for (const std::size_t tail : tails) log_.boundaries.back().tails.push_back(node(tail));
    return *this;
  }
  Story& edge(std::size_t from, std::size_t to) {
    edges_.push_back({node(from), node(to), {}});
    return *this;
  }
  Story& ends(const std::vector<std::size_t>& tails = {}) { return says(end, '-', tails); }

  bool edges_matter() const { return needs_edges(log_); }
  std::string scopes() const {
    std::string text;
    for (const std::size_t number : assign_annotations(log_, edges_))
      text += number == 0 ? '-' : static_cast<char>('a' + number - 1);
    return text;
  }

 private:
  std::size_t number_of(char what) {
    const std::size_t number = what == '-' ? 0 : static_cast<std::size_t>(what - 'a') + 1;
    while (log_.annotations.size() <= number) log_.annotations.push_back({{"name", std::string(1, what)}});
    return number;
  }

  AnnotationLog log_;
  std::vector<backend::Edge> edges_;
};

TEST(AnnotationLog, OfOneThreadNeedsNoEdges) {
  Story story;
  story.made(1).says(0, 'a').made(2).says(0, 'b').made(1).says(0, 'a').made(1).says(0, '-').made(1).ends();
  EXPECT_FALSE(story.edges_matter());
  EXPECT_EQ(story.scopes(), "-aaba-");
}

TEST(AnnotationLog, OfAScopeThatWasNotLeftGoesOnToTheEnd) {
  Story story;
  story.says(0, 'a').made(2).ends();
  EXPECT_EQ(story.scopes(), "aa");
}

TEST(AnnotationLog, OfTwoThreadsOneAfterTheOtherFollowsTheirOrder) {
  Story story;
  story.says(0, 'a').made(1).says(0, '-').made(1).says(1, 'b').made(1).says(1, '-').ends();
  EXPECT_EQ(story.scopes(), "a-b");
}

TEST(AnnotationLog, OfTwoThreadsAtOnceFollowsTheirStreams) {
  Story story;  // 0 -> 1 -> 3 of thread 0, 0 -> 2 -> 4 of thread 1
  story.made(1).says(0, 'a', {0}).says(1, 'b', {0}).made(4);
  story.edge(0, 1).edge(1, 3).edge(0, 2).edge(2, 4);
  story.says(1, '-', {4}).says(0, '-', {3}).ends({3, 4});
  EXPECT_TRUE(story.edges_matter());
  EXPECT_EQ(story.scopes(), "-abab");
}

TEST(AnnotationLog, OfStreamsWithoutAnyNodeBeforeFollowsThemToo) {
  Story story;
  story.says(0, 'a').says(1, 'b').made(4).edge(0, 2).edge(1, 3);
  story.says(1, '-', {3}).says(0, '-', {2}).ends({2, 3});
  EXPECT_EQ(story.scopes(), "abab");
}

TEST(AnnotationLog, TheNextBoundaryOfAThreadFindsItsNodesAmongThoseOfSeveral) {
  Story story;
  story.made(2).says(0, 'a', {0}).says(1, 'b', {1}).made(2).edge(0, 2).edge(1, 3);
  story.says(0, 'c', {2}).made(2).edge(2, 4).edge(3, 5);
  story.says(1, '-', {5}).says(0, '-', {4}).ends();
  EXPECT_EQ(story.scopes(), "--abcb");
}

TEST(AnnotationLog, WorkThatAThreadJoinedIsOfTheThreadWhoseStreamItFollows) {
  Story story;  // thread 1 joined node 2 of thread 0, and node 4 of none
  story.made(2).says(0, 'a', {0}).says(1, 'b', {1}).made(4);
  story.edge(0, 2).edge(1, 3).edge(2, 5).edge(3, 5).edge(4, 5);
  story.says(1, '-', {5}).says(0, '-', {2}).ends({5});
  EXPECT_EQ(story.scopes(), "--abbb");
}

TEST(AnnotationLog, WorkThatAThreadWaitedForIsNotItsOwn) {
  Story story;  // 0 -> 1 -> 3 of thread 1, 0 -> 2 -> 4 of thread 0, and 3 waits for 2
  story.made(1).says(1, 'b', {0}).made(1).says(0, 'a', {0}).made(3);
  story.edge(0, 1).edge(1, 3).edge(0, 2).edge(2, 4).edge(2, 3);
  story.says(1, '-', {3}).says(0, '-', {4}).ends({3, 4});
  EXPECT_EQ(story.scopes(), "-baba");
}

TEST(AnnotationLog, WhatLeadsToNoThreadIsOfTheThreadWhoseBoundaryComesNext) {
  Story story;
  story.made(1).says(0, 'a', {0}).says(1, 'b', {0}).made(1).says(1, '-', {0}).says(0, '-', {0}).ends();
  EXPECT_EQ(story.scopes(), "-b");
}

}  // namespace
}  // namespace reprise::inspect::test
