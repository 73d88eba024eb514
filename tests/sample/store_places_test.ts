import assert from "node:assert/strict";
import { mapToOurs } from "../../lib/sample/mounts.ts";
import { normalizePath, refuseRoot } from "../../lib/sample/paths.ts";
import { parseUnitStores } from "../../lib/sample/store_places.ts";

const OURS = `22 1 8:2 / / rw - ext4 /dev/sda2 rw
30 22 8:3 / /data rw - ext4 /dev/sda3 rw
40 22 0:50 / /var/lib/docker/overlay2/abc/merged rw - overlay overlay rw
41 22 8:2 /home/u/my\\040models /srv/also rw - ext4 /dev/sda2 rw`;

Deno.test("a container's volume is found where the host keeps it", () => {
  const theirs = `100 90 0:50 / / rw - overlay overlay rw
101 100 8:2 /var/lib/docker/volumes/ollama/_data /home/ollama/.ollama rw - ext4 /dev/sda2 rw
102 100 8:3 /big /models rw - ext4 /dev/sda3 rw
103 100 0:99 / /secret rw - tmpfs tmpfs rw`;
  const map = (path: string) => mapToOurs(path, theirs, OURS);
  assert.equal(map("/home/ollama/.ollama/models"), "/var/lib/docker/volumes/ollama/_data/models");
  assert.equal(map("/models/x"), "/data/big/x");
  assert.equal(map("/models"), "/data/big");
  assert.equal(map("/usr/share/ollama"), "/var/lib/docker/overlay2/abc/merged/usr/share/ollama");
  assert.equal(map("/secret/x"), null, "no mount of ours shows it");
  assert.equal(mapToOurs("/anything", OURS, OURS), "/anything", "the same view is the same path");
  const bound = `1 0 8:2 / / rw - ext4 a rw\n2 1 8:2 /home/u/my\\040models /m rw - ext4 a rw`;
  assert.equal(
    mapToOurs("/m/f", bound, OURS),
    "/home/u/my models/f",
    "the whole file system comes before a part of it",
  );
});

Deno.test("OLLAMA_MODELS stands in a unit in every form that systemd takes", () => {
  assert.deepEqual(
    parseUnitStores(
      '[Service]\nEnvironment="OLLAMA_MODELS=/data/my models" OTHER=1\nEnvironment=A=b OLLAMA_MODELS=/two\n#Environment=OLLAMA_MODELS=/no\n',
    ),
    ["/data/my models", "/two"],
  );
});

Deno.test("the kernel's folders and the whole file system are no model folders, whoever names them", () => {
  for (const path of ["/", "/proc", "/proc/1/root", "/sys/fs", "/dev/shm", "/etc", "/etc/ssl"]) {
    assert.notEqual(refuseRoot(path), null, path);
  }
  for (const path of ["/etcetera", "/data", "/home/u/proc"]) assert.equal(refuseRoot(path), null, path);
  assert.equal(normalizePath("/a//b/./c/../d/"), "/a/b/d");
});
