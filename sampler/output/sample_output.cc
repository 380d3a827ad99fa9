// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "sampler/output/sample_output.h"

#include <string_view>

namespace gpuprobe::sampler {
namespace {

constexpr uint64_t kMaxSamples = 4000;

// Of stack and wait target.
uint64_t HashOf(const WatchedThread& thread) {
  uint64_t hash = thread.target + 1;
  for (uint32_t i = 0; i < thread.depth; ++i) {
    hash = (hash ^ thread.stack[i]) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 32;
  }
  return hash;
}

}  // namespace

void SampleOutput::Init(void* memory, LocationTable* locations, int64_t trace_minus_monotonic_ns) {
  uint8_t* bytes = static_cast<uint8_t*>(memory);
  encoder_.Init(bytes);
  pieces_.Init(bytes + proto::SampleEncoder::kMemoryBytes);
  locations_ = locations;
  to_trace_ns_ = trace_minus_monotonic_ns;
}

void SampleOutput::Begin(int64_t now_ns) {
  encoder_.Begin(now_ns + to_trace_ns_);
  begin_ns_ = now_ns;
  samples_ = 0;
  ++piece_;
}

// Does nothing where the piece has no room: it is full then, and what is being added begins again
// in the next one.
void SampleOutput::EncodeModule(TextId path, uint32_t encoded) {
  for (ModuleIds::Entry& entry : locations_->modules()->entries()) {
    if (entry.module != path || entry.piece == piece_) continue;
    if (encoder_.AddModule(encoded, entry.bytes, entry.size)) entry.piece = piece_;
  }
}

uint32_t SampleOutput::EncodeStack(const WatchedThread& thread) {
  uint32_t ids[kMaxSampleDepth];
  size_t depth = 0;
  for (uint32_t i = 0; i < thread.depth; ++i) {
    const LocationId id = thread.stack[i];
    if (id == 0) continue;
    uint32_t encoded = encoder_.FindLocation(id);
    if (encoded == 0) {
      const Location& l = locations_->Get(id);
      const uint32_t file = encoder_.InternText(locations_->Text(l.file));
      encoded = encoder_.AddLocation(id, encoder_.InternText(locations_->Text(l.function)), file,
                                     l.line, l.offset, static_cast<uint32_t>(l.kind));
      if (l.kind == LocationKind::kNative) EncodeModule(l.file, file);
    }
    ids[depth++] = encoded;
  }
  return encoder_.InternStack(ids, depth);
}

bool SampleOutput::AddFacts(const SampledProcess& process, bool ended) {
  proto::SampledProcessFacts facts = {};
  facts.pid = process.pid;
  facts.parent_pid = process.parent_pid;
  facts.name = process.name;
  facts.command_line = process.command_line;
  facts.python_version = process.python_version;
  std::string_view notes[SampledProcess::kMaxNotes];
  for (size_t i = 0; i < process.note_count; ++i) notes[i] = process.notes[i];
  facts.unreadable = notes;
  facts.unreadable_count = process.note_count;
  facts.start_ticks = process.start_ticks;
  facts.allowed_cpus = process.allowed_cpus;
  facts.ended = ended;
  return encoder_.AddProcess(facts);
}

bool SampleOutput::TryAdd(SampledProcess* process, WatchedThread* thread) {
  if (process->described_in != piece_) {
    if (!AddFacts(*process, /*ended=*/false)) return false;
    process->described_in = piece_;
  }
  const uint64_t hash = HashOf(*thread);
  if (thread->piece != piece_ || thread->piece_hash != hash) {
    thread->piece_stack = EncodeStack(*thread);
    thread->piece_target = encoder_.InternText(locations_->Text(thread->target));
    if (encoder_.full()) return false;
    thread->piece = piece_;
    thread->piece_hash = hash;
  }
  proto::SampleRecord sample = {};
  sample.time_ns = thread->look_ns + to_trace_ns_;
  sample.interval_ns = thread->interval_ns;
  sample.cpu_ns = thread->cpu_ns;
  sample.runnable_ns = thread->runnable_ns;
  sample.state = thread->state;
  sample.flags = thread->flags;
  sample.stack = thread->piece_stack;
  sample.syscall = thread->syscall;
  sample.wait_target = thread->piece_target;
  sample.gil_holder = thread->gil_holder;
  if (!encoder_.AddSample(process->pid, thread->tid, sample)) return false;
  encoder_.NameThread(process->pid, thread->tid, thread->name, (thread->roles & kRoleMain) != 0);
  return true;
}

void SampleOutput::Add(SampledProcess* process, WatchedThread* thread) {
  if (!TryAdd(process, thread)) {
    // The piece is full: the sample opens the next one, which has room for any.
    Seal(thread->look_ns, totals_);
    if (!TryAdd(process, thread)) {
      ++dropped_;
      return;
    }
  }
  // Well within what a slot takes.
  if (++samples_ == kMaxSamples) Seal(thread->look_ns, totals_);
}

void SampleOutput::AddEnded(const SampledProcess& process, int64_t now_ns) {
  if (AddFacts(process, /*ended=*/true)) return;
  Seal(now_ns, totals_);
  AddFacts(process, /*ended=*/true);
}

void SampleOutput::Seal(int64_t now_ns, const proto::SamplerTotals& totals) {
  totals_ = totals;
  totals_.samples_dropped = dropped_;
  if (uint8_t* slot = pieces_.BeginWrite()) {
    pieces_.EndWrite(encoder_.Seal(now_ns + to_trace_ns_, totals_, slot, SealedPieces::kSlotBytes));
  } else {
    dropped_ += samples_;
  }
  Begin(now_ns);
}

}  // namespace gpuprobe::sampler
