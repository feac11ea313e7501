// fake_daemon SOCKET [--never-forms]: serves until it is killed.

#include <stdio.h>
#include <string.h>

#include "client/testing/fake_daemon.h"

int main(int argc, char** argv) {
  if (argc < 2) {
    fprintf(stderr, "usage: fake_daemon SOCKET [--never-forms]\n");
    return 2;
  }
  optireduce::client::FakeDaemon::Options options;
  options.never_forms = argc > 2 && strcmp(argv[2], "--never-forms") == 0;
  optireduce::client::FakeDaemon daemon(argv[1], options);
  printf("ready\n");
  fflush(stdout);
  daemon.Run();
}
