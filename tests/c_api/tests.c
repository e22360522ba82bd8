// SPDX-License-Identifier: Apache-2.0
#include "tests/c_api/tests.h"

#include <time.h>

struct objects make_objects(void) {
  struct objects made = {NULL, NULL, NULL};
  EXPECT_OK(reprise_device_default(&made.device));
  EXPECT_OK(reprise_stream_create(made.device, NULL, &made.stream));
  EXPECT_OK(reprise_graph_create(&made.graph));
  return made;
}

void destroy_objects(const struct objects* objects) {
  EXPECT_OK(reprise_stream_synchronize(objects->stream));
  reprise_graph_destroy(objects->graph);
  reprise_stream_destroy(objects->stream);
}

void wait_for(const struct objects* objects, const int* value, int expected) {
  const time_t begin = time(NULL);
  while (*value != expected && time(NULL) - begin < 60) EXPECT_OK(reprise_graph_reset(objects->graph));
}

const struct c_test c_tests[] = {
    {"CCaptures", "AFunctionIsCapturedAndReplayed", a_function_is_captured_and_replayed},
    {"CCaptures", "WhatIsSubmittedFromBeginToEndIsCaptured", what_is_submitted_from_begin_to_end_is_captured},
    {"CCaptures", "OneWhoseEndIsRefusedContinues", a_capture_whose_end_is_refused_continues},
    {"CCaptures", "ABrokenOneHasAReportAndTheGraphCapturesAgain",
     a_broken_capture_has_a_report_and_the_graph_captures_again},
    {"CCaptures", "AnEmptyOneIsRefusedUnlessItIsAllowed", an_empty_capture_is_refused_unless_it_is_allowed},
    {"CCaptures", "AFunctionThatFailsAbandonsTheCaptureAndItsStatusIsReturned",
     a_function_that_fails_abandons_the_capture_and_its_status_is_returned},
    {"CCaptures", "AnAbandonedOneLeavesAnEmptyGraph", an_abandoned_capture_leaves_an_empty_graph},
    {"CCaptures", "AKeptTemplateIsInstantiatedAndUploaded", a_kept_template_is_instantiated_and_uploaded},
    {"CCaptures", "AFunctionOfTheHostIsDestroyedOnceAfterTheGraph",
     a_function_of_the_host_is_destroyed_once_after_the_graph},
    {"CGraphs", "AnArgumentIsChangedByTheNameOfItsKernel", an_argument_is_changed_by_the_name_of_its_kernel},
    {"CGraphs", "OneIsUpdatedToAnother", a_graph_is_updated_to_another_one},
    {"CGraphs", "CapturesShareAPool", captures_share_a_pool},
    {"CGraphs", "FreedMemoryIsRefusedByAReplayUnlessTheGraphRetainsIt",
     freed_memory_is_refused_by_a_replay_unless_the_graph_retains_it},
    {"CGraphs", "ForkedStreamsAreJoined", forked_streams_are_joined},
    {"CGraphs", "AreWrittenAsDot", a_graph_is_written_as_dot},
    {"CGraphs", "TheMemoryOfOneIsCounted", the_memory_of_a_graph_is_counted},
    {"CInterface", "NullIsRefusedWithTheNameOfTheParameter", null_is_refused_with_the_name_of_the_parameter},
    {"CInterface", "TextsBeginWithTheFunctionOfThisInterface", texts_begin_with_the_function_of_this_interface},
    {"CInterface", "StructsOfOtherVersionsAreReadAsFarAsTheyGo", structs_of_other_versions_are_read_as_far_as_they_go},
    {"CInterface", "ATextIsCutToTheSizeOfTheBuffer", a_text_is_cut_to_the_size_of_the_buffer},
    {"CInterface", "DevicesAreFoundByTheirTexts", devices_are_found_by_their_texts},
    {"CInterface", "AViewOfAStreamIsThatStream", a_view_of_a_stream_is_that_stream},
    {"CInterface", "TheLastErrorBelongsToItsThread", the_last_error_belongs_to_its_thread},
    {"CInterface", "MemoryComesFromTheAllocatorAndReturnsToIt", memory_comes_from_the_allocator_and_returns_to_it},
    {"CInterface", "EachStatusHasAName", each_status_has_a_name},
};
const size_t c_test_count = sizeof c_tests / sizeof c_tests[0];
