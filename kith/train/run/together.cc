#include "kith/train/run/together.h"

#include <algorithm>

#include "kith/base/error.h"
#include "kith/base/text.h"

namespace kith::train {
namespace {

// Whether it has failed because a worker is gone, so that the others can do it.
bool can_do_without(const DecentralizedDataParallel& wrapped) {
  const engine::WorldParts& world = wrapped.world();
  const auto gone = [&](WorkerId w) { return w != world.self() && world.transport->lost(w); };
  return wrapped.options().on_lost == OnLost::reform && std::ranges::any_of(world.members.workers, gone);
}

}  // namespace

void together(DecentralizedDataParallel& wrapped, std::string_view what, const std::function<void()>& work,
              const std::function<void()>& lost) {
  Log& log = *wrapped.world().log;
  while (true) {
    try {
      work();
      return lost();
    } catch (const engine::Overtaken& error) {
      return log.warning(cat(what, " of step ", wrapped.steps(), " is left out: ", error.what()));
    } catch (const InputError&) {
      throw;
    } catch (const Error& error) {
      if (!can_do_without(wrapped)) throw;
      log.warning(cat(what, " of step ", wrapped.steps(), ": ", error.what()));
    }
    wrapped.barrier();
    lost();
  }
}

}  // namespace kith::train
