#include "cli/launch_hosts.h"

#include <charconv>
#include <filesystem>

#include "cli/crew.h"
#include "cli/launch_output.h"
#include "cli/launch_wire.h"
#include "cli/scale_requests.h"
#include "cli/supervisor.h"
#include "kith/base/error.h"
#include "kith/base/text.h"

namespace kith::cli {
namespace {

// For the remote shell.
std::string quoted(const std::string& word) {
  std::string text = "'";
  for (const char c : word)
    text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  for (std::string& word : split(text, ' '))
    if (!word.empty()) words.push_back(std::move(word));
  return words;
}

}  // namespace

std::vector<LaunchHost> parse_hosts(std::string_view text) {
  std::vector<LaunchHost> hosts;
  for (const std::string& part : split(text, ',')) {
    const auto colon = part.rfind(':');
    LaunchHost host{part.substr(0, colon), 1};
    if (colon != std::string::npos) {
      const char* end = part.data() + part.size();
      const auto [at, status] = std::from_chars(part.data() + colon + 1, end, host.workers);
      if (status != std::errc{} || at != end) host.workers = 0;
    }
    // A name that begins with '-' would be an option to ssh.
    if (host.address().empty() || host.name.front() == '-' || host.workers < 1) {
      throw InputError(cat("'", part, "' is not HOST or HOST:WORKERS"), "--hosts",
                       "for example node1:2,node2:2");
    }
    hosts.push_back(std::move(host));
  }
  return hosts;
}

namespace {

class OnHosts {
 public:
  explicit OnHosts(const HostsLaunch& launch)
      : launch_(launch),
        ssh_(words_of(launch.ssh)),
        store_(launch::with_run(launch.store)),
        serves_(store_.by_worker()),
        output_(launch.supervision.deaths.then),
        supervisor_(supervision()),
        crew_(supervisor_, {.hosts = workers_on(launch.hosts),
                            .elastic = launch.elastic,
                            .start = [this](int worker, Seat seat) { start(worker, seat); },
                            .ask_to_leave =
                                [this](int worker, Seat seat) {
                                  supervisor_.tell(name_of(seat.host), cat(kLeave, worker));
                                },
                            .over = [this] { end_agents(); }}) {
    if (ssh_.empty()) throw InputError("is empty", "--ssh", "for example \"ssh -p 2222\"");
    store_.served = true;
  }

  int run() {
    crew_.begin();
    const int code = supervisor_.wait();
    output_.finish(code);
    return code;
  }

 private:
  static std::string name_of(int host) { return cat("host ", host); }
  static std::vector<int> workers_on(const std::vector<LaunchHost>& hosts) {
    std::vector<int> workers;
    for (const LaunchHost& host : hosts)
      workers.push_back(host.workers);
    return workers;
  }
  SupervisorOptions supervision() {
    SupervisorOptions options = launch_.supervision;
    options.who_is_left = [this] { return crew_.names(); };
    return options;
  }
  bool others_go_on() const { return launch_.supervision.deaths.then == OnDeath::go_on; }

  // Those that begin come with their machine's agent.
  void start(int worker, Seat seat) {
    if (worker < crew_.began_with()) {
      if (seat.local == 0) start_agent(seat.host, worker);
      return;
    }
    supervisor_.note_start();
    supervisor_.tell(name_of(seat.host), cat(kStart, worker, " ", seat.local));
  }

  void start_agent(int number, int first_worker) {
    const LaunchHost& host = launch_.hosts[static_cast<std::size_t>(number)];
    const AgentTask task{.command = launch_.command,
                         .folder = std::filesystem::current_path().string(),
                         .environment = launch_.environment,
                         .secret = launch_.secret,
                         .store = store_.text(),
                         .serves = serves_ && number == 0,
                         .elastic = launch_.elastic.has_value(),
                         .hears_scale = launch_.elastic.has_value() && number == 0,
                         .deaths = launch_.supervision.deaths.then,
                         .first_worker = first_worker,
                         .local_workers = host.workers,
                         .workers = crew_.began_with()};
    ChildOptions child{.name = name_of(number), .command = ssh_, .workers = host.workers};
    child.command.insert(child.command.end(),
                         {host.name, cat("exec ", quoted(own_program()), " launch --agent")});
    child.remote_input = to_line(task) + "\n";
    child.on_line = [this, name = host.name](Stream stream, std::string_view line) {
      const auto event = stream == Stream::out ? parse_event(line) : std::nullopt;
      event ? hear(*event) : output_.line(name, stream, line);
    };
    child.on_end = [this, number](const Ending& ending) { agent_ended(number, ending); };
    supervisor_.start(std::move(child));
  }

  void hear(const AgentEvent& event) {
    if (event.scale) {
      const ScaleRequest request = parse_scale_request(*event.scale);
      const std::string answer =
          answer_of([&] { return crew_.scale_to(request.workers, request.can_leave); });
      return supervisor_.tell(name_of(0), cat(kAnswer, answer));
    }
    const std::string tag = std::to_string(event.worker);
    if (!event.ending) return output_.line(tag, event.stream, event.text);
    output_.ended(cat("worker ", event.worker), tag, *event.ending);
    crew_.ended(event.worker, *event.ending, event.left);
    if (event.ending->code != 0) return supervisor_.note_death(event.ending->code);
    event.left ? supervisor_.note_left() : supervisor_.note_end();
  }

  void agent_ended(int number, const Ending& ending) {
    // With the one that serves the store the job ends: nobody could join it.
    const std::vector<int> with_it = crew_.host_ended(number, serves_ && number == 0 ? 0 : ending.code);
    const std::string& name = launch_.hosts[static_cast<std::size_t>(number)].name;
    // Where the others go on, workers that were told of have been dealt with.
    if (ending.code != 0 && (!others_go_on() || !with_it.empty()))
      output_.ended(cat("host ", name), name, ending);
    if (ending.code != 0 && !others_go_on()) supervisor_.note_death(ending.code);
    if (!others_go_on()) return;
    for (std::size_t k = 0; k < with_it.size(); ++k)
      supervisor_.note_death(ending.code);
  }

  // Who serves the store, and who waits for workers that may come.
  void end_agents() {
    const std::size_t waiting = launch_.elastic ? launch_.hosts.size() : serves_ ? 1 : 0;
    for (std::size_t host = 0; host < waiting; ++host)
      supervisor_.tell(name_of(static_cast<int>(host)), kOver);
  }

  const HostsLaunch& launch_;
  const std::vector<std::string> ssh_;
  launch::MeetingPoint store_;
  const bool serves_;
  LaunchOutput output_;
  Supervisor supervisor_;
  Crew crew_;
};

}  // namespace

int launch_on_hosts(const HostsLaunch& launch) {
  return OnHosts(launch).run();
}

}  // namespace kith::cli
