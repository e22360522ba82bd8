// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The whole library.

#include "reprise/device.h"
#include "reprise/error.h"
#include "reprise/event.h"
#include "reprise/graph.h"
#include "reprise/handles.h"
#include "reprise/kernel.h"
#include "reprise/memory.h"
#include "reprise/stream.h"
#include "reprise/version.h"
