// Runs a fuzz target without libFuzzer, as a test that any compiler builds:
//
//   replay [--file=FILE] [--mutations=N] [--seed=S] CORPUS_FOLDER
//
// First every file of the corpus as it is, then N random changes of them, the
// same ones for the same seed. With --file only that file. A finding ends the
// process; the input that led to it is left in $TEST_UNDECLARED_OUTPUTS_DIR
// (or here) as fuzz-finding, for --file or for libFuzzer.

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "dataplane/base/rng.h"
#include "tests/fuzz/fuzz.h"

namespace optireduce {
namespace {

using Bytes = std::vector<uint8_t>;

constexpr size_t kMaxInputBytes = 4096;

// What the signal handler writes out.
char finding_path[4096];
const uint8_t* current_data = nullptr;
size_t current_size = 0;

// Only what is allowed in a signal handler.
void SaveInputAndDie(int signal_number) {
  const int file = open(finding_path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (file >= 0 && write(file, current_data, current_size) ==
                       static_cast<ssize_t>(current_size)) {
    constexpr char kText[] = "The input is in fuzz-finding.\n";
    [[maybe_unused]] const ssize_t said =
        write(STDERR_FILENO, kText, sizeof(kText) - 1);
  }
  std::signal(signal_number, SIG_DFL);
  raise(signal_number);
}

void CatchFindings() {
  const char* folder = std::getenv("TEST_UNDECLARED_OUTPUTS_DIR");
  std::snprintf(finding_path, sizeof(finding_path), "%s/fuzz-finding",
                folder != nullptr ? folder : ".");
  for (const int number : {SIGABRT, SIGSEGV, SIGBUS, SIGILL, SIGFPE}) {
    std::signal(number, SaveInputAndDie);
  }
}

void Run(const Bytes& input) {
  // Exactly as large as the input, so that a sanitizer sees a read past it.
  const Bytes copy(input.begin(), input.end());
  current_data = copy.data();
  current_size = copy.size();
  LLVMFuzzerTestOneInput(copy.data(), copy.size());
}

Bytes ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return Bytes(std::istreambuf_iterator<char>(file),
               std::istreambuf_iterator<char>());
}

std::vector<Bytes> ReadCorpus(const std::string& folder) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<Bytes> corpus;
  corpus.reserve(paths.size());
  for (const auto& path : paths) corpus.push_back(ReadFile(path));
  return corpus;
}

// Values that sit at an edge of something.
uint8_t AnyByte(Rng* rng) {
  constexpr uint8_t kEdges[] = {0, 1, 2, 0x20, 0x7f, 0x80, 0xfe, 0xff};
  return rng->Chance(0.5) ? kEdges[rng->Below(std::size(kEdges))]
                          : static_cast<uint8_t>(rng->Next());
}

void ChangeOnce(const std::vector<Bytes>& corpus, Rng* rng, Bytes* input) {
  const size_t at = rng->Below(input->size() + 1);
  const bool inside = at < input->size();
  switch (rng->Below(6)) {
    case 0:
      if (inside) (*input)[at] ^= static_cast<uint8_t>(1 << rng->Below(8));
      break;
    case 1:
      if (inside) (*input)[at] = AnyByte(rng);
      break;
    case 2:
      input->resize(at);
      break;
    case 3:
      input->insert(input->begin() + at, rng->Below(8) + 1, AnyByte(rng));
      break;
    case 4:
      input->erase(input->begin() + at,
                   input->begin() + std::min(input->size(), at + 4));
      break;
    case 5: {
      const Bytes& other = corpus[rng->Below(corpus.size())];
      const size_t from = rng->Below(other.size() + 1);
      input->resize(at);
      input->insert(input->end(), other.begin() + from, other.end());
      break;
    }
  }
}

int ReplayMain(int argc, char** argv) {
  std::string folder;
  std::string file;
  uint64_t mutations = 20'000;
  uint64_t seed = 1;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const std::string value = argument.substr(argument.find('=') + 1);
    if (argument.starts_with("--file=")) {
      file = value;
    } else if (argument.starts_with("--mutations=")) {
      mutations = std::stoull(value);
    } else if (argument.starts_with("--seed=")) {
      seed = std::stoull(value);
    } else {
      folder = argument;
    }
  }
  CatchFindings();
  if (!file.empty()) {
    Run(ReadFile(file));
    return 0;
  }
  const std::vector<Bytes> corpus = ReadCorpus(folder);
  if (corpus.empty()) {
    std::fprintf(stderr, "no corpus in '%s'\n", folder.c_str());
    return 1;
  }
  std::fprintf(stderr, "%zu files, %llu mutations, seed %llu\n", corpus.size(),
               static_cast<unsigned long long>(mutations),
               static_cast<unsigned long long>(seed));
  for (const Bytes& input : corpus) Run(input);
  Rng rng(seed);
  for (uint64_t i = 0; i < mutations; ++i) {
    Bytes input = corpus[rng.Below(corpus.size())];
    for (uint64_t changes = 1 + rng.Below(4); changes > 0; --changes) {
      ChangeOnce(corpus, &rng, &input);
    }
    input.resize(std::min(input.size(), kMaxInputBytes));
    Run(input);
  }
  return 0;
}

}  // namespace
}  // namespace optireduce

int main(int argc, char** argv) { return optireduce::ReplayMain(argc, argv); }
