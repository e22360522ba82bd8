// SPDX-License-Identifier: Apache-2.0
#include <cupti_callbacks.h>
#include <cupti_version.h>

#include <cstdio>
#include <cstdlib>

// A libcupti.so.13, or 12, with one subscriber, which is notified of the calls that a test makes up. The environment
// breaks it:
//   FAKE_LIBCUPTI_SUBSCRIBE    what cuptiSubscribe returns
//   FAKE_LIBCUPTI_ENABLE       what cuptiEnableDomain returns
//   FAKE_LIBCUPTI_HOLDER       the tool that cuptiSubscribe_v2 names
// Compiled with FAKE_LIBCUPTI_LACKS it has no cuptiEnableDomain.

namespace {

CUpti_CallbackFunc callback = nullptr;
void* callback_data = nullptr;
bool enabled[CUPTI_CB_DOMAIN_SIZE] = {};
int subscriber = 0;

CUptiResult result_from(const char* name) {
  const char* const text = std::getenv(name);
  return static_cast<CUptiResult>(text == nullptr ? 0 : std::atoi(text));
}

}  // namespace

extern "C" {

CUptiResult cuptiSubscribe(CUpti_SubscriberHandle* handle, CUpti_CallbackFunc function, void* data) {
  if (callback != nullptr) return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  if (const CUptiResult result = result_from("FAKE_LIBCUPTI_SUBSCRIBE"); result != CUPTI_SUCCESS) return result;
  callback = function;
  callback_data = data;
  *handle = reinterpret_cast<CUpti_SubscriberHandle>(&subscriber);
  return CUPTI_SUCCESS;
}

#if CUPTI_API_VERSION >= 130000
CUptiResult cuptiSubscribe_v2(CUpti_SubscriberHandle*, CUpti_CallbackFunc, void*, CUpti_SubscriberParams* params) {
  const char* const holder = std::getenv("FAKE_LIBCUPTI_HOLDER");
  if (holder != nullptr) std::snprintf(params->oldSubscriberName, params->oldSubscriberSize, "%s", holder);
  return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
}
#endif

CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle handle) {
  if (handle != reinterpret_cast<CUpti_SubscriberHandle>(&subscriber)) return CUPTI_ERROR_INVALID_PARAMETER;
  callback = nullptr;
  for (bool& domain : enabled) domain = false;
  return CUPTI_SUCCESS;
}

#ifndef FAKE_LIBCUPTI_LACKS
CUptiResult cuptiEnableDomain(uint32_t enable, CUpti_SubscriberHandle, CUpti_CallbackDomain domain) {
  if (const CUptiResult result = result_from("FAKE_LIBCUPTI_ENABLE"); result != CUPTI_SUCCESS) return result;
  enabled[domain] = enable != 0;
  return CUPTI_SUCCESS;
}
#endif

CUptiResult cuptiGetResultString(CUptiResult, const char** text) {
  *text = "CUPTI_ERROR_OF_A_TEST";
  return CUPTI_SUCCESS;
}

/// Notifies the subscriber, if there is one for this domain.
void fake_cupti_notify(CUpti_CallbackDomain domain, CUpti_CallbackId id, const CUpti_CallbackData* data) {
  if (callback != nullptr && enabled[domain]) callback(callback_data, domain, id, data);
}

bool fake_cupti_reports(CUpti_CallbackDomain domain) {
  return callback != nullptr && enabled[domain];
}

bool fake_cupti_has_subscriber() {
  return callback != nullptr;
}

}  // extern "C"
