// optisim: the simulator's command line.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "dataplane/sim/random_scenario.h"
#include "dataplane/sim/seeds.h"
#include "dataplane/sim/simulation.h"
using namespace optireduce::sim;
int main(int argc, char** argv) {
  uint64_t first = argc > 1 ? strtoull(argv[1], nullptr, 10) : 1;
  uint64_t count = argc > 2 ? strtoull(argv[2], nullptr, 10) : 1;
  if (argc > 3) {
    RunOptions options;
    options.trace = stdout;
    Outcome o = RunScenario(RandomScenario(first), options);
    for (auto& v : o.violations) printf("%s\n", v.c_str());
    return 0;
  }
  auto s = RunSeeds(first, count, true, stdout);
  PrintSummary(s, stdout);
  if (count > 500) s.coverage.Print(stdout);
}
