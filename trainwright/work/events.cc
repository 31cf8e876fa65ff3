// A list as a program for an allocator.
#include "trainwright/work/walk.h"
#include "trainwright/work/work.h"

namespace trainwright {
namespace {

struct Recorder {
  std::vector<StorageEvent>* events = nullptr;
  void make(std::int32_t storage, Bytes bytes) { events->push_back({storage, true, bytes}); }
  void drop(std::int32_t storage, Bytes bytes, bool sent) {
    events->push_back({storage, false, bytes, sent});
  }
  void wait(std::int32_t storage, Bytes bytes) { make(storage, bytes); }
  void run(std::size_t) {}
};

}  // namespace

StorageEvents storage_events(const OperatorList& list) {
  StorageEvents events;
  const std::vector<detail::Stay> stays = detail::stays(list);
  Recorder recorder{&events.forward};
  detail::Walk walk(list, stays, detail::BackwardPart::Both, recorder);
  walk.forward();
  recorder.events = &events.backward;
  walk.backward();
  events.storages = walk.storages();
  events.input = list.input.index();
  events.output = list.output.index();
  events.input_gradient = walk.input_gradient();
  events.output_gradient = walk.output_gradient();
  events.waiting = walk.waiting();
  return events;
}

}  // namespace trainwright
