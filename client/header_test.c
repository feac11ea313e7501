/* The header is C11, and a C program can use the library. */

#include <stdio.h>
#include <string.h>

#include "client/optireduce.h"

static int failures = 0;

static void Expect(int condition, const char* what) {
  if (!condition) {
    fprintf(stderr, "FAILED: %s\n", what);
    ++failures;
  }
}

int main(void) {
  Expect(or_version() == OR_VERSION_MAJOR * 1000000u +
                             OR_VERSION_MINOR * 1000u + OR_VERSION_PATCH,
         "library and header are of one version");
  Expect(strcmp(or_status_name(OR_OK), "ok") == 0, "name of OR_OK");
  Expect(or_status_name(-12345) != NULL, "unknown status has a name");

  or_connect_options options;
  or_connect_options_init(&options, sizeof(options));
  Expect(options.limit_ns == OR_SECONDS(5), "default limit");
  options.socket_path = "/nonexistent/control.sock";
  options.limit_ns = 0;
  or_session* session = NULL;
  Expect(or_connect(&options, &session) == OR_ERR_UNREACHABLE, "no daemon");
  Expect(session == NULL, "no session");
  Expect(strstr(or_last_error(), options.socket_path) != NULL,
         "the error names the socket");
  Expect(or_close(&session) == OR_OK, "closing nothing");
  return failures == 0 ? 0 : 1;
}
