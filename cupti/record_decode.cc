// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "cupti/record_decode.h"

#include <stdio.h>

#include "cupti/api_calls.h"
#include "cupti/record_fields.h"
#include "cupti/record_layout.h"

namespace gpuprobe::cupti {
namespace {

// How many records after a driver call are looked at for its runtime call. The next record of the
// same thread decides; others come between only where threads share a buffer (before 12.3 or on
// request) or where CUPTI has just added a bunch of finished kernels.
constexpr int kLookAhead = 32;

}  // namespace

bool BufferDecoder::Init(const CuptiApi* api, uint32_t cupti_version) {
  api_ = api;
  use_cupti_walk_ = false;
  buffers_verified_ = 0;
  for (RecentCall& call : recent_calls_) call = RecentCall{};
  if (!KnownLayout(cupti_version, &layout_)) return false;
  MeasureRecordSizes(api, &layout_);
  snprintf(layout_name_, sizeof(layout_name_), "%s (kernel %u bytes)", layout_.name,
           layout_.size_bytes[static_cast<uint32_t>(Kind::kConcurrentKernel)]);
  return true;
}

void BufferDecoder::Verify(uint8_t* buffer, size_t valid_bytes) {
  ++buffers_verified_;
  size_t position = 0;
  void* record = nullptr;
  while (api_->ActivityGetNextRecord(buffer, valid_bytes, &record) == kSuccess) {
    const size_t size = valid_bytes - position < kRecordAlignment_bytes
                            ? 0
                            : SizeOfKind(LoadU32(buffer + position));
    if (record != buffer + position || size == 0 || size > valid_bytes - position) {
      use_cupti_walk_ = true;
      return;
    }
    position += size;
  }
  // CUPTI stopped first. At the very first record that is no testimony (a library that answers
  // nothing); later it is, unless our own walk finds nothing more either.
  const size_t left = valid_bytes - position;
  if (position == 0 || left < kRecordAlignment_bytes) return;
  const size_t size = SizeOfKind(LoadU32(buffer + position));
  if (size != 0 && size <= left) use_cupti_walk_ = true;
}

void BufferDecoder::RecordedCallsOnly(bool on) {
  recorded_calls_only_ = on;
  constexpr ApiDomain kDomains[] = {ApiDomain::kRuntime, ApiDomain::kDriver};
  for (const ApiDomain domain : kDomains) {
    uint64_t* const bits = chatter_[static_cast<size_t>(domain)];
    for (uint32_t i = 0; i < kChatterWords; ++i) bits[i] = 0;
    if (!on) continue;
    size_t count = 0;
    const ApiCall* calls = ApiCalls(domain, &count);
    for (size_t i = 0; i < count && calls[i].cbid < 64 * kChatterWords; ++i) {
      if (!calls[i].recorded) bits[calls[i].cbid / 64] |= uint64_t{1} << (calls[i].cbid % 64);
    }
  }
}

bool BufferDecoder::DoesTheSame(const ApiRecord& driver, const RecentCall& runtime) const {
  if (runtime.start_ns > driver.start_ns || runtime.end_ns < driver.end_ns) return false;
  const ApiCall* inner = FindApiCall(ApiDomain::kDriver, driver.cbid);
  const ApiCall* outer = FindApiCall(ApiDomain::kRuntime, runtime.cbid);
  if (inner == nullptr || outer == nullptr || inner->api_class != outer->api_class) return false;
  return outer->recorded || !recorded_calls_only_;
}

bool BufferDecoder::CountsWithRuntimeCall(const ApiRecord& driver, const uint8_t* after,
                                          const uint8_t* end) const {
  const RecentCall& recent = recent_calls_[driver.thread % kRecentCalls];
  if (recent.thread == driver.thread && recent.correlation == driver.correlation) {
    return DoesTheSame(driver, recent);
  }
  const uint8_t* next = after;
  for (int looked_at = 0; looked_at < kLookAhead; ++looked_at) {
    const size_t left = static_cast<size_t>(end - next);
    if (left < kRecordAlignment_bytes) return false;
    const uint32_t kind = LoadU32(next);
    const size_t size = SizeOfKind(kind);
    if (size == 0 || size > left) return false;
    const bool runtime = kind == static_cast<uint32_t>(Kind::kRuntime);
    if (runtime || kind == static_cast<uint32_t>(Kind::kDriver)) {
      const uint32_t thread = LoadU32(next + offset::Api::thread);
      const uint32_t correlation = LoadU32(next + offset::Api::correlation);
      if (thread == driver.thread && correlation != driver.correlation) return false;
      if (thread == driver.thread && runtime) {
        return DoesTheSame(
            driver, {LoadI64(next + offset::Api::start), LoadI64(next + offset::Api::end), thread,
                     correlation, LoadU32(next + offset::Api::cbid)});
      }
    }
    next += size;
  }
  return false;
}

}  // namespace gpuprobe::cupti
