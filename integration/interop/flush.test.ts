import { test } from "bun:test"
import { nameServer } from "./busybox.ts"
import { Containerd } from "./containerd.ts"
import { expectAnswersThroughFlushes } from "./flushes.ts"
import { nerdctlNetwork } from "./networks.ts"
import { Podman } from "./podman.ts"
import type { RuntimeHost } from "./runtime-host.ts"

interface Node extends AsyncDisposable {
  readonly host: RuntimeHost
}

/** Starts a container "web" with each runtime, and publishes the container's port 80 at port 8080 of the node. */
const nodes: Readonly<Record<string, () => Promise<Node>>> = {
  async podman() {
    const podman = await Podman.create()
    await podman.start("web", nameServer, "--publish", "8080:80")
    return podman
  },
  async containerd() {
    const containerd = await Containerd.create()
    await containerd.runPod("web", { portMappings: [{ containerPort: 80, hostPort: 8080 }] })
    return containerd
  },
  async "containerd with a network of nerdctl"() {
    const containerd = await Containerd.create(nerdctlNetwork)
    await containerd.runPod("web", { portMappings: [{ containerPort: 80, hostPort: 8080 }] })
    return containerd
  },
}

for (const [runtime, create] of Object.entries(nodes)) {
  test(`${runtime}: a published port answers again after each flush of all rules, while the listener runs`, async () => {
    await using node = await create()
    await expectAnswersThroughFlushes(node.host)
  }, 180_000)
}
