"""Asked by ``helm test``: a replica is ready, and the API answers whoever shows the token."""

import json
import os
import sys
import urllib.error
import urllib.request


def ask(path: str) -> dict:
    request = urllib.request.Request(os.environ["API"] + path)
    if os.environ.get("TOKEN"):
        request.add_header("Authorization", "Bearer " + os.environ["TOKEN"])
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.loads(answer.read())


try:
    print("/readyz:", json.dumps(ask("/readyz")))
    services = ask("/api/v1/services")["services"]
    print("services:", ", ".join(each["service"] for each in services) or "none yet")
except urllib.error.HTTPError as error:
    sys.exit(f"{error.url}: HTTP {error.code}: {error.read().decode(errors='replace')}")
except OSError as error:
    sys.exit(f"{os.environ['API']}: {error}")
